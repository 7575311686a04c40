"""How much of the tests a quick run holds: the same claims, about fewer cases of each."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

QUICK = False
"""Whether this is a run of `pytest --quick`; set before any test is imported."""

SWEEP = 6
"""Cases that a quick run takes of a test with many parameters, evenly from the first to the last."""

LEFT_OUT = ("benchmarks", "e2e", "examples", "patching/test_constructors.py", "patching/test_functions.py")
"""What needs boxes, the network or torch."""


def many(count: int) -> int:
    """So many cases of what is made up at random; in a quick run a tenth."""
    return max(count // 10, 1) if QUICK else count


def left_out(path: Path) -> bool:
    return path.relative_to(Path(__file__).parent).as_posix() in LEFT_OUT


def sample(items: list[pytest.Item]) -> set[pytest.Item]:
    """The tests of a quick run."""
    sweeps: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("slow"):
            sweeps[item.nodeid.partition("[")[0]].append(item)
    kept: set[pytest.Item] = set()
    for sweep in sweeps.values():
        some = min(len(sweep), SWEEP)
        kept.update(sweep[at * (len(sweep) - 1) // max(some - 1, 1)] for at in range(some))
    return kept
