from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from triage.verify.load.plan import LoadShape, planned

SHAPE = LoadShape(2000, 64, (32, 512), (16, 64), 8.0)


def gaps(shape: LoadShape) -> list[float]:
    return [later - earlier for earlier, later in pairwise(ask.due for ask in planned(shape))]


def test_a_plan_is_the_same_every_time():
    assert planned(SHAPE) == planned(replace(SHAPE))


def test_lengths_do_not_depend_on_when_they_are_asked_for():
    at_once = planned(replace(SHAPE, rate=0.0))
    assert [(ask.prompt_tokens, ask.max_tokens) for ask in at_once] == [
        (ask.prompt_tokens, ask.max_tokens) for ask in planned(SHAPE)
    ]
    assert {ask.due for ask in at_once} == {0.0}


def test_lengths_are_uniform_ends_included():
    prompts = [ask.prompt_tokens for ask in planned(SHAPE)]
    outputs = [ask.max_tokens for ask in planned(SHAPE)]
    assert (min(outputs), max(outputs)) == (16, 64)
    assert min(prompts) < 40
    assert max(prompts) > 504
    assert fmean(prompts) == pytest.approx(272, rel=0.05)
    assert pstdev(prompts) == pytest.approx(480 / 12**0.5, rel=0.05)


def test_arrivals_of_a_poisson_process_at_exactly_the_rate():
    apart = gaps(SHAPE)
    assert fmean(apart) == pytest.approx(1 / 8)
    assert pstdev(apart) == pytest.approx(1 / 8, rel=0.1)  # as long as the mean: exponential
    assert min(apart) >= 0


def test_constant_arrivals():
    assert gaps(replace(SHAPE, arrivals="constant", requests=20)) == pytest.approx([1 / 8] * 19)


def test_a_single_request_comes_at_once():
    (only,) = planned(replace(SHAPE, requests=1))
    assert only.due == 0.0
