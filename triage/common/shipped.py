"""Finds the data that ships with the product: `patches`, `playbooks`."""

from __future__ import annotations

from pathlib import Path


def shipped_directory(name: str) -> Path:
    """The directory inside an installed package, or that of the checkout."""
    package = Path(__file__).parent.parent
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name
