from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from triage.common.python_source import parse_python

LARGE = "".join(f"def f{n}(a, b={n}):\n    return a + [b, (a, {n})]\n" for n in range(200))


class Garbage:
    """What runs while it is collected, and so lets another thread go on."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        sum(range(100))


@pytest.fixture
def hurried() -> Iterator[None]:
    """Threads take turns, and garbage is collected, as often as can be."""
    switching, collecting = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(100)
    yield
    sys.setswitchinterval(switching)
    gc.set_threshold(*collecting)


def size(text: str) -> int:
    waste = [Garbage() for _ in range(1000)]
    del waste
    return len(parse_python(text).body)


@pytest.mark.usefixtures("hurried")
def test_threads_can_read_at_once() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(size, [LARGE] * 24)) == {200}


@pytest.mark.filterwarnings("error")
def test_nothing_is_warned_of() -> None:
    assert parse_python(b"x = '\\d' is 1\n").body
