"""The figures of a verification's document by level: how many streams, or how many requests a second."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

_MEANS = ("ttft_ms", "ttft_p99_ms", "itl_ms", "itl_p99_ms", "decode_rate", "output_throughput")
_SUMS = ("completed", "failed")


def levels(metrics: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry a level: its name, and of its repeats their number, mean figures and summed counts."""
    found: dict[tuple[float, int], list[Mapping[str, Any]]] = {}
    for one in metrics:
        found.setdefault((one.get("rate", 0.0), one["concurrency"]), []).append(one)
    return [_together(repeats) for _, repeats in sorted(found.items())]


def rows(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Those of a verification, and then those `by` the engine's own tool."""
    sides = [{"tool": "", "metrics": document["metrics"]}]
    if document.get("by_tool"):  # which an older document lacks
        sides.append(document["by_tool"])
    for side in sides:
        for one in levels(side["metrics"]):
            yield {**one, "by": side["tool"]}


def level(one: Mapping[str, Any]) -> str:
    """What a load or a change was measured at: `4`, or `2/s`."""
    rate = one.get("rate")  # an older document has none
    return f"{rate:g}/s" if rate else str(one["concurrency"])


def _together(repeats: list[Mapping[str, Any]]) -> dict[str, Any]:
    failures: dict[str, int] = {}
    for one in repeats:
        for kind, number in one["failures"].items():
            failures[kind] = failures.get(kind, 0) + number
    return {
        "level": level(repeats[0]),
        "repeats": len(repeats),
        **{name: _mean(one[name] for one in repeats) for name in _MEANS},
        **{name: sum(one[name] for one in repeats) for name in _SUMS},
        "failures": failures,
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
