"""A quick run leaves out what is there, and takes of a sweep its first case, its last and some between."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest

from tests import bounds


@pytest.mark.parametrize("path", [*chain(*bounds.LEFT_OUT.values()), *bounds.DEAR])
def test_what_a_quick_run_leaves_out_is_there(path: str) -> None:
    assert (Path(__file__).parent / path).exists()


def test_a_tenth_of_what_is_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for quick, counts in ((True, [30, 1]), (False, [300, 4])):
        monkeypatch.setattr(bounds, "QUICK", quick)
        assert [bounds.many(300), bounds.many(4)] == counts


@pytest.mark.parametrize("size", [1, 2, 3, 4, 50])
def test_a_sample_reaches_from_the_first_case_to_the_last(size: int, request: pytest.FixtureRequest) -> None:
    items = [_item(request.node.parent, f"test_sweep[{number}]") for number in range(size)]
    kept = bounds.sample(items)
    assert len(kept) == min(size, bounds.SWEEP)
    assert {items[0], items[-1]} <= kept


def test_what_is_slow_is_left_out(request: pytest.FixtureRequest) -> None:
    slow, fast = (_item(request.node.parent, name) for name in ("test_slow", "test_fast"))
    slow.add_marker("slow")
    assert bounds.sample([slow, fast]) == {fast}


def _item(parent: pytest.Module, name: str) -> pytest.Function:
    return pytest.Function.from_parent(parent, name=name, callobj=lambda: None)
