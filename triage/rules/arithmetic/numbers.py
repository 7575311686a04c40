"""Arithmetic of memory and of sizes, without a host: plain numbers in, plain numbers out."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
GIB = UNITS["GiB"]
STEP = 100  # shares of memory are given in hundredths
FILLED = 0.9  # of a card that weights may take: the rest is for cache, activations and graphs

_SIZE = r"([\d.]{1,12}) (bytes|KiB|MiB|GiB)"
_ASKED = re.compile(rf"Tried to allocate {_SIZE}")
_TOTAL = re.compile(rf"(?:total capacity of {_SIZE}|{_SIZE} total capacity)")
_FREE = re.compile(rf"(?:of which {_SIZE} is free|{_SIZE} free)")


@dataclass(frozen=True)
class Allocation:
    """One that failed, in bytes, as torch tells of it.

    CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 94.97 GiB of which
    902.56 MiB is free. ...
    """

    asked: int
    total: int
    free: int

    @property
    def lacking(self) -> int:
        """0 or less where there was room, but not in one piece."""
        return self.asked - self.free


def allocation(message: str) -> Allocation | None:
    sizes = [_size(pattern.search(message)) for pattern in (_ASKED, _TOTAL, _FREE)]
    asked, total, free = sizes
    if asked is None or total is None or free is None or total <= 0:
        return None
    return Allocation(asked, total, free)


def share_without(share: float, lacking: int, total: int) -> float:
    """The largest share of a card, in hundredths, that leaves out `lacking` more bytes than `share` does."""
    return math.floor((share - lacking / total) * STEP + 1e-9) / STEP


def share_of_free(free: float, total: float) -> float:
    """The largest share of the card that is free, in hundredths."""
    return math.floor(free / total * STEP + 1e-9) / STEP


def next_share(taken: float) -> float:
    """The smallest share, in hundredths, that is more than what is taken."""
    return (math.floor(taken * STEP + 1e-9) + 1) / STEP


def gpus_for(weights: int, memory: int) -> int:
    """How many cards of `memory` bytes hold the weights and leave a tenth of each."""
    return max(1, math.ceil(weights / (memory * FILLED)))


def sizes_that_divide(numbers: Iterable[int], key_value_heads: int | None, most: int) -> tuple[int, ...]:
    """Sizes up to `most` of which every number is a multiple. Fewer key-value heads are copied instead."""
    wanted = tuple(numbers)
    return tuple(
        size
        for size in range(1, most + 1)
        if all(number % size == 0 for number in wanted)
        and (not key_value_heads or key_value_heads % size == 0 or size % key_value_heads == 0)
    )


def _size(found: re.Match[str] | None) -> int | None:
    if found is None:
        return None
    number, unit = [part for part in found.groups() if part is not None]
    try:
        return int(float(number) * UNITS[unit])
    except ValueError:
        return None
