from __future__ import annotations

import math
import random

import pytest

from triage.verify.load.spread import uncertainty


def test_against_a_textbook():
    # five values, mean 10, standard deviation sqrt(2.5): 2.776 * 1.5811 / sqrt(5) = 1.963
    assert uncertainty([8, 9, 10, 11, 12]) == pytest.approx(0.1963, abs=1e-4)
    assert uncertainty([10, 10]) == 0


def test_nothing_is_known_from_one_repeat():
    assert uncertainty([10.0]) == uncertainty([]) == math.inf


@pytest.mark.parametrize("count", [2, 3, 5, 20, 60])
def test_it_holds_the_true_mean_19_times_of_20(count: int):
    source = random.Random(count)
    held = 0
    for _ in range(2000):
        values = [source.gauss(100, 10) for _ in range(count)]
        mean = sum(values) / count
        held += abs(mean - 100) <= uncertainty(values) * mean
    assert held / 2000 == pytest.approx(0.95, abs=0.015)
