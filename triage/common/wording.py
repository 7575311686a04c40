"""Words for numbers."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 host`, `3 hosts`, `2 entries`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
