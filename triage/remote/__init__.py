"""Programs that are sent to a host and run there, each by the oldest Python that it promises."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def program_text(name: str) -> str:
    """Return the source of the program `name` of this package, as it is sent to a host."""
    return Path(__file__).with_name(f"{name}.py").read_text("utf-8")
