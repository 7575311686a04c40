"""Arithmetic of memory and of sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.rules.arithmetic import numbers
from triage.rules.arithmetic.numbers import GIB, Allocation

TODAY = (
    "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 94.97 GiB of which "
    "902.56 MiB is free. Including non-PyTorch memory, this process has 94.08 GiB memory in use."
)
UP_TO_2_1 = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 79.15 GiB total capacity; "
    "77.03 GiB already allocated; 1.25 MiB free; 78.10 GiB reserved in total by PyTorch)"
)


def test_what_torch_says_of_an_allocation() -> None:
    found = numbers.allocation(TODAY)
    assert found == Allocation(int(1.5 * GIB), int(94.97 * GIB), int(902.56 * (1 << 20)))
    assert found.lacking == int(1.5 * GIB) - int(902.56 * (1 << 20))
    older = numbers.allocation(UP_TO_2_1)
    assert older == Allocation(20 << 20, int(79.15 * GIB), int(1.25 * (1 << 20)))


@pytest.mark.parametrize(
    "message",
    [
        "",
        "CUDA out of memory.",
        "Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 0 bytes of which 0 bytes is free",
        TODAY.replace("94.97", "9.4.9"),
        TODAY.replace("1.50 GiB", "..... GiB"),
    ],
)
def test_what_it_does_not_say(message: str) -> None:
    assert numbers.allocation(message) is None


@given(st.floats(0.01, 1), st.integers(1, 100 * GIB), st.integers(GIB, 200 * GIB))
def test_the_share_leaves_room_for_what_was_lacking(share: float, lacking: int, total: int) -> None:
    found = numbers.share_without(share, lacking, total)
    assert found * total <= share * total - lacking + total * 1e-6
    assert (found + 0.01) * total > share * total - lacking  # and is the largest of such hundredths


@pytest.mark.parametrize(("free", "total", "share"), [(10.2, 79.1, 0.12), (79.1, 79.1, 1.0), (50, 100, 0.5)])
def test_the_share_that_is_free(free: float, total: float, share: float) -> None:
    assert numbers.share_of_free(free, total) == share


@pytest.mark.parametrize(("taken", "share"), [(0.8531, 0.86), (0.86, 0.87), (0.3, 0.31), (0.999, 1.0)])
def test_the_next_share(taken: float, share: float) -> None:
    assert numbers.next_share(taken) == share


@pytest.mark.parametrize(
    ("weights", "memory", "gpus"), [(595, 80, 9), (72, 80, 1), (73, 80, 2), (1, 1000, 1)]
)
def test_cards_that_hold_the_weights(weights: int, memory: int, gpus: int) -> None:
    assert numbers.gpus_for(weights * GIB, memory * GIB) == gpus


@pytest.mark.parametrize(
    ("of", "key_value", "most", "sizes"),
    [
        ([64], None, 8, (1, 2, 4, 8)),
        ([64], 8, 16, (1, 2, 4, 8, 16)),  # more ranks than key-value heads: copies
        ([40], 10, 8, (1, 2, 5)),
        ([64, 151_936], None, 8, (1, 2, 4, 8)),
        ([61], None, 8, (1,)),
        ([], None, 3, (1, 2, 3)),
    ],
)
def test_sizes(of: list[int], key_value: int | None, most: int, sizes: tuple[int, ...]) -> None:
    assert numbers.sizes_that_divide(of, key_value, most) == sizes
