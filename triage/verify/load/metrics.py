"""Computes the figures of a load, as docs/benchmarks.md defines them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

from triage.verify.model import Load, Metrics, Request, Verification

BURST_GAP = 0.0005  # seconds; chunks closer than that arrived together
KEPT = 0.95  # share of a rate below which the client did not keep it
SERVED = 0.9  # and the service


def metrics_of(load: Load) -> Metrics:
    """Figures over the requests that succeeded, and how many did not."""
    good = [request for request in load.requests if not request.error]
    kinds = Counter(request.error.partition(":")[0] for request in load.requests if request.error)
    first = [request.chunks[0] - request.sent for request in good]
    whole = [request.chunks[-1] - request.sent for request in good]
    gaps = [after - before for request in good for before, after in pairwise(request.chunks)]
    per_token = [time_per_output_token(request) for request in good if request.output_tokens > 1]
    tpot = _median(per_token)
    tokens = sum(request.output_tokens for request in good)
    counted = [request.prompt_tokens for request in good if request.prompt_tokens is not None]
    sent_rate, served_rate = _rates(load, good) if load.rate else (None, None)
    return Metrics(
        concurrency=load.concurrency,
        completed=len(good),
        failed=len(load.requests) - len(good),
        failures=dict(kinds),
        ttft_ms=_ms(_median(first)),
        itl_ms=_ms(_median(gaps)),
        tpot_ms=_ms(tpot),
        e2e_ms=_ms(_median(whole)),
        decode_rate=1 / tpot if tpot else None,
        output_throughput=tokens / load.wall if load.wall else 0.0,
        near_zero_gaps=sum(gap < BURST_GAP for gap in gaps) / len(gaps) if gaps else 0.0,
        ttft_p99_ms=_ms(percentile(first, 99)),
        itl_p99_ms=_ms(percentile(gaps, 99)),
        effective_concurrency=sum(whole) / load.wall if load.wall else 0.0,
        prompt_tokens=round(median(counted)) if counted else load.prompt_tokens,
        max_tokens=load.max_tokens,
        token_source=load.token_source,
        rate=load.rate,
        arrivals=load.arrivals,
        sent_rate=sent_rate,
        served_rate=served_rate,
        pace=_pace(load, sent_rate, served_rate, median(whole)) if whole else "",
        prompt_lengths=load.prompt_lengths,
        output_lengths=load.output_lengths,
    )


def levels_of(all_metrics: Iterable[Metrics]) -> list[tuple[float, int]]:
    """One stream first, then more, then rates."""
    return sorted({one.level for one in all_metrics})


@dataclass(frozen=True)
class Figure:
    """A figure of one level that two results are compared by."""

    name: str
    unit: str
    level: tuple[float, int]
    read: Callable[[Metrics], float | None]
    more_is_better: bool

    def of(self, all_metrics: Iterable[Metrics]) -> list[float]:
        """Its value in each repeat that has one."""
        here = (one for one in all_metrics if one.level == self.level)
        return [value for one in here if (value := self.read(one))]


def compared_figures(all_metrics: Iterable[Metrics]) -> Iterator[Figure]:
    """Decode rate and TTFT of one stream (or the fewest), throughput of more, latencies at each rate."""
    first, *more = levels_of(all_metrics)
    yield Figure("decode rate", "tok/s", first, lambda one: one.decode_rate, True)
    yield Figure("TTFT", "ms", first, lambda one: one.ttft_ms, False)
    for level in more:
        if level[0]:
            yield Figure("TTFT", "ms", level, lambda one: one.ttft_ms, False)
            yield Figure("TPOT", "ms", level, lambda one: one.tpot_ms, False)
        else:
            yield Figure("output throughput", "tok/s", level, lambda one: one.output_throughput, True)


def by_level(all_metrics: Iterable[Metrics]) -> list[list[Metrics]]:
    """The repeats of each level."""
    found = list(all_metrics)
    return [[one for one in found if one.level == level] for level in levels_of(found)]


def _rates(load: Load, good: Sequence[Request]) -> tuple[float | None, float | None]:
    """Requests/s that were sent, and that ended: over the time from the first to the last."""
    sent = [request.sent for request in load.requests]
    ended = [request.chunks[-1] for request in good]
    return _rate(sent), _rate(ended)


def _rate(moments: Sequence[float]) -> float | None:
    span = max(moments) - min(moments) if moments else 0.0
    return (len(moments) - 1) / span if span else None


def _pace(load: Load, sent: float | None, served: float | None, whole: float) -> str:
    """What did not keep to the rate of a load; "" when all did. `whole`: the median E2E, seconds.

    A server falls behind when requests end more slowly than they come, and the last one of them has waited
    for longer than one takes.
    """
    if sent is not None and sent < KEPT * load.rate:
        at_once = _most_at_once(load.requests)
        full = at_once >= load.concurrency
        why = f"{at_once} ran at once, the most allowed" if full else "the client was late"
        return f"asked for {load.rate:g} requests/s, sent {sent:.2g}/s: {why}"
    if served is not None and sent is not None and served < SERVED * sent:
        behind = (len(load.requests) - 1) * (1 / served - 1 / sent)
        if behind > whole:
            return f"at {load.rate:g} requests/s the service falls behind: {served:.2g}/s ended"
    return ""


def _most_at_once(requests: Sequence[Request]) -> int:
    steps = [(request.sent, 1) for request in requests]
    steps += [(request.chunks[-1] if request.chunks else request.sent, -1) for request in requests]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


def time_per_output_token(request: Request) -> float:
    """(E2E - TTFT) / (output tokens - 1), seconds, of a request with more than one token."""
    return (request.chunks[-1] - request.chunks[0]) / (request.output_tokens - 1)


def percentile(values: Sequence[float], rank: float) -> float | None:
    """Linear between the closest ranks, as numpy does it; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    at = (len(ordered) - 1) * rank / 100
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def medians(result: Verification) -> dict[str, float | None]:
    """The medians of a result: one stream's decode rate and TTFT, the throughput of most streams."""
    levels = levels_of(result.metrics)
    low = [one for one in result.metrics if one.level == levels[0]]
    high = [one for one in result.metrics if one.level == levels[-1]]
    return {
        "decode_rate": _median_of(one.decode_rate for one in low),
        "output_throughput": _median_of(one.output_throughput for one in high),
        "ttft_ms": _median_of(one.ttft_ms for one in low),
        "start": result.start.seconds if result.start.ready and result.start.restarted else None,
    }


def _median_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
