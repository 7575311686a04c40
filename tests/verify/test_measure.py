"""When repeats end, with a server whose figures are scripted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.verify.test_compare import BEFORE
from triage.common.errors import UsageError
from triage.verify.compare import compare
from triage.verify.events import Event, LoadStarted
from triage.verify.load import measure as module
from triage.verify.load.client import Reply
from triage.verify.load.measure import MeasuredLoad, measure, require_possible, shapes_of
from triage.verify.load.plan import LoadShape
from triage.verify.model import Load, Request
from triage.verify.options import Options

LIKE = Reply("tiny", "completions", True, 1.0, ())
Itl = Callable[[int, LoadShape], float]  # seconds, of a repeat of a load


class Scripted:
    """A client whose loads take a second of a clock that it moves itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, itl: Itl, error: str = "") -> None:
        self.now = 0.0
        self.itl, self.error = itl, error
        self.seen: list[LoadShape] = []
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)

    def load(self, like: Reply, shape: LoadShape, *, seed: str, deadline: float) -> Load:
        self.now += 1.0
        gap = self.itl(self.seen.count(shape), shape)
        self.seen.append(shape)
        times = tuple(gap * number for number in range(5, 9))
        each = Request(0.0, times, 8, 4, "length", self.error)
        requests = (each,) * shape.requests
        return Load(shape.concurrency, 8, 4, "usage", times[-1], requests, rate=shape.rate)

    def measured(self, **options: Any) -> MeasuredLoad:
        given = {"concurrency": 2, "requests": 2, "load_timeout": 1000.0, **options}
        return measure(self, LIKE, Options(**given), lambda event: None)  # type: ignore[arg-type]


def steady(repeat: int, shape: LoadShape) -> float:
    return 0.02


def test_a_steady_server_is_measured_as_often_as_asked_for(monkeypatch: pytest.MonkeyPatch):
    found = Scripted(monkeypatch, steady).measured(repeats=3)
    assert [one.concurrency for one in found.metrics] == [1, 2] * 3
    assert found.repeats == "3 repeats, figures to ±0.0%: enough to tell 5%"


def test_only_what_is_not_known_well_enough_is_measured_again(monkeypatch: pytest.MonkeyPatch):
    def restless_at_two(repeat: int, shape: LoadShape) -> float:
        return 0.02 * (1.06 if shape.concurrency == 2 and repeat % 2 else 1.0)

    found = Scripted(monkeypatch, restless_at_two).measured(repeats=3)
    repeats = {level: [one.concurrency for one in found.metrics].count(level) for level in (1, 2)}
    assert repeats[1] == 3
    assert 3 < repeats[2] < 16
    assert found.repeats.startswith(f"{repeats[2]} repeats, figures to ±2.")
    assert found.repeats.endswith("enough to tell 5%")
    finer = Scripted(monkeypatch, restless_at_two).measured(repeats=3, difference=0.03, most_repeats=100)
    assert len(finer.metrics) > len(found.metrics)


@pytest.mark.parametrize(
    ("options", "repeats", "why"),
    [
        ({"repeats": 2, "most_repeats": 7}, 7, "no more were asked for"),
        ({"load_timeout": 12.0}, 5, "the time for loads was up"),
        ({"load_timeout": 3.0}, 1, "the time for loads was up"),
    ],
)
def test_a_restless_server_is_measured_as_long_as_allowed(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], repeats: int, why: str
):
    def restless(repeat: int, shape: LoadShape) -> float:
        return 0.02 * (2.0 if repeat % 2 else 1.0)

    found = Scripted(monkeypatch, restless).measured(**options)
    assert len(found.metrics) == 2 * repeats
    assert found.repeats.startswith(f"{repeats} repeat")
    assert found.repeats.endswith(why)


def test_requests_that_fail_are_not_asked_for_again_and_again(monkeypatch: pytest.MonkeyPatch):
    found = Scripted(monkeypatch, steady, "timed out").measured(repeats=2)
    assert len(found.metrics) == 4
    assert all(one.failed for one in found.metrics)


def test_a_good_figure_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch):
    """The stop looks at the spread alone: who stops at a figure that he likes finds what he likes."""

    def restless(base: float) -> Itl:
        return lambda repeat, shape: base * (1.04 if repeat % 2 else 1.0)

    fast, slow = (Scripted(monkeypatch, restless(base)).measured() for base in (0.01, 0.04))
    assert 6 < len(fast.metrics) == len(slow.metrics)


def judged(monkeypatch: pytest.MonkeyPatch, source: random.Random, faster: float) -> str:
    """The verdict on a service that is faster by so much, of two whose repeats vary by 3 %."""
    results = []
    for base in (0.02, 0.02 / (1 + faster)):

        def noisy(repeat: int, shape: LoadShape, base: float = base) -> float:
            return base * source.gauss(1.0, 0.03)

        found = Scripted(monkeypatch, noisy).measured()
        results.append(replace(BEFORE, metrics=found.metrics, repeats=found.repeats))
    return compare(results[1], results[0]).verdict


def test_verdicts_with_the_stopping_rule_are_right_most_of_the_time(monkeypatch: pytest.MonkeyPatch):
    source = random.Random(7)
    alike = Counter(judged(monkeypatch, source, 0.0) for _ in range(100))
    faster = Counter(judged(monkeypatch, source, 0.10) for _ in range(100))
    assert alike["better"] + alike["worse"] <= 5
    assert alike["same"] >= 80
    assert faster["better"] >= 90
    assert faster["worse"] == 0


def test_what_is_asked_for():
    options = Options(concurrency=4, sweep=(2, 4, 32), requests=8, prompt_lengths=(32, 512), max_tokens=16)
    shapes = shapes_of(options)
    assert [(shape.concurrency, shape.requests) for shape in shapes] == [(1, 8), (2, 8), (4, 8), (32, 32)]
    assert {(shape.prompts, shape.outputs) for shape in shapes} == {((32, 512), (16, 16))}
    rated = shapes_of(Options(rates=(0.5, 8.0), arrivals="constant", requests=8))
    assert [(shape.rate, shape.requests, shape.arrivals) for shape in rated[1:]] == [
        (0.5, 8, "constant"),
        (8.0, 80, "constant"),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (Options(requests=100, prompt_tokens=50_000), "5000000 tokens of prompts"),
        (Options(requests=1000, rates=(0.01,), arrivals="constant"), "99900 s"),
    ],
)
def test_a_load_that_cannot_be_is_refused_beforehand(options: Options, says: str):
    with pytest.raises(UsageError, match=says):
        require_possible(options)
    require_possible(replace(options, requests=0))
    require_possible(Options(requests=8, prompt_tokens=100_000, max_tokens=100_000))


def test_words_differ_in_every_repeat_and_events_tell_what_runs(monkeypatch: pytest.MonkeyPatch):
    client = Scripted(monkeypatch, steady)
    seeds: list[str] = []
    plain = client.load

    def load(like: Reply, shape: LoadShape, *, seed: str, deadline: float) -> Load:
        seeds.append(seed)
        return plain(like, shape, seed=seed, deadline=deadline)

    client.load = load  # type: ignore[method-assign]
    events: list[Event] = []
    measure(client, LIKE, Options(rates=(2.0,), requests=2, repeats=2), events.append)  # type: ignore[arg-type]
    assert len(seeds) == len(set(seeds)) == 5
    started = [event for event in events if isinstance(event, LoadStarted)]
    assert [(event.rate, event.requests, event.repeat) for event in started] == [
        (rate, requests, repeat) for repeat in (1, 2) for rate, requests in ((0.0, 2), (2.0, 20))
    ]
