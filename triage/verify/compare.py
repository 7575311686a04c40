"""Better, same, worse, inconclusive or failed, and why. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Literal

from triage.common.wording import counted
from triage.verify.load.metrics import KEPT, Figure, by_level, compared_figures
from triage.verify.load.spread import DIFFERENCE, uncertainty
from triage.verify.model import MetricChange, Metrics, Start, VerdictName, Verification

BURSTS = 0.2  # share of chunk gaps near zero above which delivery times say little
SLOW_START = 5.0  # seconds more than before that are not worth a word
SLOW_START_SHARE = 0.25
LENGTHS = 0.1  # relative difference of prompt lengths that still counts as the same


@dataclass(frozen=True)
class Comparison:
    verdict: VerdictName
    reason: str
    changes: tuple[MetricChange, ...] = ()


def compare(now: Verification, before: Verification | None, difference: float = DIFFERENCE) -> Comparison:
    """The verdict on a verification, against an earlier one of the same deployment where there is one.

    `difference`, relative, is what is to be told, and no smaller one is.
    """
    found = _compared(now, before, difference)
    if not now.repeats or found.verdict == "failed":
        return found
    return replace(found, reason=f"{found.reason} ({now.repeats})")


def _compared(now: Verification, before: Verification | None, difference: float) -> Comparison:
    if not now.start.ready:
        return Comparison("failed", now.start.failure)
    if any(metrics.failed for metrics in now.metrics):
        return Comparison("failed", _failures(now.metrics))
    if not now.metrics:
        return Comparison("inconclusive", "nothing was measured")
    if before is None:
        return Comparison("inconclusive", "nothing to compare with: this is the first result")
    obstacles = _obstacles(now, before)
    if obstacles:
        return Comparison(
            "inconclusive", f"not comparable with the result of {before.at}: " + "; ".join(obstacles)
        )
    changes = tuple(_changes(now.metrics, before.metrics, difference))
    verdict, reason = _verdict(changes, _doubts(now, before), difference)
    return Comparison(verdict, reason, changes)


def slower_start(now: Start, before: Start | None) -> Iterator[str]:
    """What to say of a start that took clearly longer than the one before: how much, and in which phase."""
    if before is None or not (now.ready and before.ready and now.restarted and before.restarted):
        return
    if now.seconds - before.seconds <= max(SLOW_START, SLOW_START_SHARE * before.seconds):
        return
    told = f"the start took {now.seconds:.0f} s, {before.seconds:.0f} s the last time"
    known = dict(_lengths(before))
    later = [(length - known[name], name) for name, length in _lengths(now) if name in known]
    if later and max(later)[0] > 0:
        told += f"; most of it until {max(later)[1]!r}: {max(later)[0]:.0f} s more"
    yield told


def _lengths(start: Start) -> Iterator[tuple[str, float]]:
    """How long it took to each phase, from the one before it."""
    at = 0.0
    for phase in start.phases:
        yield phase.name, phase.at - at
        at = phase.at


def _failures(metrics: Sequence[Metrics]) -> str:
    kinds: Counter[str] = Counter()
    for one in metrics:
        kinds.update(one.failures)
    total = sum(one.completed + one.failed for one in metrics)
    return f"{kinds.total()} of {counted(total, 'request')} failed: " + ", ".join(
        f"{kind} ({count})" for kind, count in kinds.most_common()
    )


def _obstacles(now: Verification, before: Verification) -> list[str]:
    """Why two results measure different things."""
    found = []
    if now.model != before.model:
        found.append(f"the model was {before.model}, is {now.model}")
    if any(metrics.failed for metrics in before.metrics):
        found.append("requests failed in it")
    facts: tuple[tuple[str, Callable[[Metrics], object]], ...] = (
        ("concurrency or rate", lambda one: (one.level, one.arrivals)),
        ("completed requests", lambda one: (one.level, one.completed)),
        ("output length", lambda one: (one.max_tokens, one.output_lengths)),
        ("range of prompt lengths", lambda one: one.prompt_lengths),
        ("source of token counts", lambda one: one.token_source),
    )
    for name, fact in facts:
        if {fact(one) for one in now.metrics} != {fact(one) for one in before.metrics}:
            found.append(f"another {name}")
    lengths = [median(one.prompt_tokens for one in side.metrics) for side in (before, now)]
    if abs(lengths[1] - lengths[0]) > LENGTHS * max(lengths):
        found.append(f"prompts of {lengths[0]:.0f} tokens, now {lengths[1]:.0f}")
    return found


def _doubts(now: Verification, before: Verification) -> str:
    """Why comparable results still allow no verdict."""
    for side, name in ((now, "now"), (before, "before")):
        bursts = max(fmean(one.near_zero_gaps for one in repeats) for repeats in by_level(side.metrics))
        if bursts > BURSTS:
            return f"tokens arrived in bursts {name} ({bursts:.0%} of the gaps were near zero)"
    for side, name in ((now, "now"), (before, "before")):
        for repeats in by_level(side.metrics):
            if len(repeats) < 2:
                return f"one repeat {name} tells no spread"
            sent = [one.sent_rate for one in repeats if one.sent_rate is not None]
            if sent and fmean(sent) < KEPT * repeats[0].rate:
                return f"{name} {max(one.pace for one in repeats)}"
    return ""


def _changes(now: Sequence[Metrics], before: Sequence[Metrics], difference: float) -> Iterator[MetricChange]:
    for figure in compared_figures(now):
        sides = [figure.of(before), figure.of(now)]
        if all(sides):
            yield _change(figure, sides[0], sides[1], difference)


def _change(figure: Figure, before: list[float], now: list[float], difference: float) -> MetricChange:
    was, is_now = fmean(before), fmean(now)
    spread = uncertainty(before) + uncertainty(now)
    verdict: Literal["better", "same", "worse", "unclear"] = "same" if spread <= difference else "unclear"
    if abs(is_now - was) > max(difference, spread) * was:
        verdict = "better" if (is_now > was) == figure.more_is_better else "worse"
    rate, concurrency = figure.level
    spread = spread if math.isfinite(spread) else 1.0
    return MetricChange(figure.name, figure.unit, concurrency, was, is_now, spread, verdict, rate)


def _verdict(changes: Sequence[MetricChange], doubt: str, difference: float) -> tuple[VerdictName, str]:
    found = {change.verdict for change in changes}
    told = "; ".join(map(_told, changes))
    if not changes:
        return "inconclusive", "no figure stands on both sides"
    if doubt:
        return "inconclusive", f"{doubt}: {told}"
    if {"better", "worse"} <= found:
        return "inconclusive", f"better and worse: {told}"
    if "better" in found or "worse" in found:
        return ("better" if "better" in found else "worse"), told
    if "unclear" in found:
        return "inconclusive", f"the repeats differ too much to tell {difference:.0%}: {told}"
    return "same", told


def _told(change: MetricChange) -> str:
    digits = 1 if max(change.before, change.now) >= 10 else 2
    return (
        f"{change.figure} at {change.at} {change.before:.{digits}f} -> "
        f"{change.now:.{digits}f} {change.unit} ({change.relative:+.1%}, spread {change.spread:.1%})"
    )
