"""From a load to its figures, as docs/benchmarks.md defines them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

from triage.verify.model import Load, Metrics, Request

BURST_GAP = 0.0005  # seconds; chunks closer than that arrived together


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
    )


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
