"""Better, same, worse, inconclusive or failed, and why. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from triage.verify.model import Change, Metrics, Start, VerdictName, Verification

FLOOR = 0.05  # relative difference below which nothing is claimed, however small the spread
BURSTS = 0.2  # share of chunk gaps near zero above which delivery times say little
SLOW_START = 5.0  # seconds more than before that are not worth a word
SLOW_START_SHARE = 0.25
LENGTHS = 0.1  # relative difference of prompt lengths that still counts as the same


@dataclass(frozen=True)
class Comparison:
    verdict: VerdictName
    reason: str
    changes: tuple[Change, ...] = ()


def compare(now: Verification, before: Verification | None) -> Comparison:
    """The verdict on a verification, against an earlier one of the same deployment where there is one."""
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
    changes = tuple(_changes(now.metrics, before.metrics))
    verdict, reason = _verdict(changes, _doubts(now, before))
    if now.sample and before.sample and now.sample != before.sample:
        reason += f"; it answers differently: {_short(before.sample)} before, {_short(now.sample)} now"
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
    return f"{kinds.total()} of {total} requests failed: " + ", ".join(
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
        ("concurrency", lambda one: one.concurrency),
        ("completed requests", lambda one: (one.concurrency, one.completed)),
        ("output length", lambda one: one.max_tokens),
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
        bursts = max(one.near_zero_gaps for one in side.metrics)
        if bursts > BURSTS:
            return f"tokens arrived in bursts {name} ({bursts:.0%} of the gaps were near zero)"
    for side, name in ((now, "now"), (before, "before")):
        if min(Counter(one.concurrency for one in side.metrics).values()) < 2:
            return f"one repeat {name} tells no spread"
    return ""


def _changes(now: Sequence[Metrics], before: Sequence[Metrics]) -> list[Change]:
    """Single-stream decode rate and TTFT at the lowest concurrency, throughput at each higher one."""
    levels = sorted({one.concurrency for one in now})
    figures: list[tuple[str, str, int, Callable[[Metrics], float | None], bool]] = [
        ("decode rate", "tok/s", levels[0], lambda one: one.decode_rate, True),
        ("TTFT", "ms", levels[0], lambda one: one.ttft_ms, False),
    ]
    for level in levels[1:]:
        figures.append(("output throughput", "tok/s", level, lambda one: one.output_throughput, True))
    changes = []
    for figure, unit, level, read, more_is_better in figures:
        sides = [
            [value for one in side if one.concurrency == level and (value := read(one))]
            for side in (before, now)
        ]
        if all(sides):
            changes.append(_change(figure, unit, level, sides[0], sides[1], more_is_better))
    return changes


def _change(
    figure: str, unit: str, level: int, before: list[float], now: list[float], more_is_better: bool
) -> Change:
    was, is_now = median(before), median(now)
    spread = max(FLOOR, *((max(side) - min(side)) / median(side) for side in (before, now)))
    verdict: Literal["better", "same", "worse"] = "same"
    if abs(is_now - was) > spread * was:
        verdict = "better" if (is_now > was) == more_is_better else "worse"
    return Change(figure, unit, level, was, is_now, spread, verdict)


def _verdict(changes: Sequence[Change], doubt: str) -> tuple[VerdictName, str]:
    found = {change.verdict for change in changes}
    told = "; ".join(map(_told, changes))
    if not changes:
        return "inconclusive", "no figure stands on both sides"
    if doubt:
        return "inconclusive", f"{doubt}: {told}"
    if {"better", "worse"} <= found:
        return "inconclusive", f"better and worse: {told}"
    return "better" if "better" in found else "worse" if "worse" in found else "same", told


def _told(change: Change) -> str:
    digits = 1 if max(change.before, change.now) >= 10 else 2
    return (
        f"{change.figure} at concurrency {change.concurrency} {change.before:.{digits}f} -> "
        f"{change.now:.{digits}f} {change.unit} ({change.relative:+.1%}, spread {change.spread:.1%})"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}...")
