"""What a computation gives for the placeholders of a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Computed:
    """Values by placeholder, and from what; `helps` is False where none would do."""

    values: Mapping[str, str]
    proof: str
    helps: bool | None = None
