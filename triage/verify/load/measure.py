"""The loads of a verification: level by level, repeated until their figures are known well enough."""

from __future__ import annotations

import math
import time
import uuid
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from triage.common.errors import UsageError
from triage.remote.load_agent import MAX_TIME, MAX_WORDS
from triage.verify.events import Listener, LoadEnded, LoadStarted
from triage.verify.load.client import Client, Reply
from triage.verify.load.metrics import compared_figures, levels_of, metrics_of
from triage.verify.load.plan import LoadShape, planned
from triage.verify.load.spread import uncertainty
from triage.verify.model import Load, Metrics
from triage.verify.options import Options

MOST_AT_ONCE = 256  # requests of a load that comes at a rate
RATE_TIME = 10.0  # seconds for which a rate is kept at least


@dataclass(frozen=True)
class MeasuredLoad:
    """`repeats` says how many there were, and why no more."""

    loads: tuple[Load, ...]
    metrics: tuple[Metrics, ...]
    repeats: str


def measure(client: Client, like: Reply, options: Options, on_event: Listener) -> MeasuredLoad:
    """Every load as often as asked for, and then those again whose figures are not known well enough.

    Well enough is half of the difference to be told: the result that this one is compared with has the
    other half. How good a figure is does not enter into it, so that nobody stops where it suits.
    """
    end = time.monotonic() + options.load_timeout
    run = uuid.uuid4().hex  # other words in every run, or a prefix cache would answer

    def load(shape: LoadShape, seed: str) -> Load:
        return client.load(like, shape, seed=f"{run} {seed}", deadline=end - time.monotonic())

    shapes = shapes_of(options)
    load(LoadShape(1, 1, shapes[0].prompts, shapes[0].outputs), "warm-up")
    loads: list[Load] = []
    metrics: list[Metrics] = []
    for repeat in count(1):
        began = time.monotonic()
        for shape in shapes:
            on_event(LoadStarted(shape.concurrency, shape.requests, repeat, options.repeats, shape.rate))
            loads.append(load(shape, f"{repeat} {shape.rate:g} {shape.concurrency}"))
            metrics.append(metrics_of(loads[-1]))
            on_event(LoadEnded(metrics[-1], repeat, options.repeats))
        if repeat >= options.repeats:
            shapes = [shape for shape in shapes if _spread(metrics, shape) > options.difference / 2]
        now = time.monotonic()
        why = _why_no_more(metrics, options, repeat, enough=not shapes, late=now + now - began > end)
        if why:
            break
    return MeasuredLoad(tuple(loads), tuple(metrics), f"{_told(repeat, metrics)}: {why}")


def shapes_of(options: Options) -> list[LoadShape]:
    """One request at a time, and then either more at once or some a second."""
    prompts, outputs = options.prompts, options.outputs
    levels = [1] if options.rates else sorted({1, options.concurrency, *options.sweep})
    shapes = [LoadShape(max(options.requests, level), level, prompts, outputs) for level in levels]
    for rate in options.rates:
        requests = max(options.requests, round(rate * RATE_TIME))
        shapes.append(LoadShape(requests, MOST_AT_ONCE, prompts, outputs, rate, options.arrivals))
    return shapes


def require_possible(options: Options) -> None:
    """Raises UsageError for loads that are more than the client on the host takes."""
    for shape in shapes_of(options) if options.requests else ():
        plan = planned(shape)
        words, seconds = sum(ask.prompt_tokens for ask in plan), plan[-1].due
        if words > MAX_WORDS or seconds > MAX_TIME:
            takes = f"it takes {words} tokens of prompts and {seconds:.0f} s, and at most {MAX_WORDS} and"
            happened = f"{takes} {MAX_TIME} s are possible"
            raise UsageError("measure with", f"{len(plan)} requests a load", happened, "ask for fewer")


def _why_no_more(
    metrics: Sequence[Metrics], options: Options, repeat: int, *, enough: bool, late: bool
) -> str:
    """Why there is no further repeat, "" where there is one."""
    if enough:
        return f"enough to tell {options.difference:.0%}"
    if late:
        return "the time for loads was up"
    if repeat >= options.repeats and any(one.failed for one in metrics):
        return "requests failed"
    return "no more were asked for" if repeat >= options.most_repeats else ""


def _told(repeats: int, metrics: Sequence[Metrics]) -> str:
    told = "1 repeat" if repeats == 1 else f"{repeats} repeats"
    worst = max(_spreads(metrics, levels_of(metrics)), default=math.inf)
    return f"{told}, figures to ±{worst:.1%}" if math.isfinite(worst) else told


def _spread(metrics: Sequence[Metrics], shape: LoadShape) -> float:
    return max(_spreads(metrics, {(shape.rate, shape.concurrency)}), default=0.0)


def _spreads(metrics: Sequence[Metrics], levels: Container[tuple[float, int]]) -> Iterator[float]:
    for figure in compared_figures(metrics):
        if figure.level in levels and (values := figure.of(metrics)):
            yield uncertainty(values)
