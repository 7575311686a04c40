"""Stored results as text, and as `triage.history/1`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import Any

from rich.text import Text

from triage.report.safe import safe_line
from triage.report.verification import VERDICTS, figure
from triage.verify.history import History
from triage.verify.load.metrics import levels_of
from triage.verify.model import Verification

TITLES = ("decode tok/s", "all tok/s", "TTFT ms", "start s")


def lines(store: History, names: Sequence[tuple[str, str]]) -> Iterator[Text]:
    if not names:
        yield Text(f"no such result is stored in {safe_line(str(store.directory))}")
    for number, (host, deployment) in enumerate(names):
        if number:
            yield Text()
        yield Text(safe_line(f"{deployment} on {host}"), "bold")
        yield Text(f"  {'at':25}  " + "  ".join(f"{title:>12}" for title in TITLES), "dim")
        baseline = store.pinned(host, deployment)
        for result in store.read(host, deployment):
            cells = "  ".join(f"{figure(value):>12}" for value in figures(result).values())
            told = safe_line(", ".join((f"{result.engine} {result.version}", *result.patches)))
            mark = ("  baseline", "bold cyan") if result.at == baseline else ("", "")
            yield Text.assemble(
                f"  {safe_line(result.at):25}  {cells}  ",
                (f"{result.verdict:12}", VERDICTS[result.verdict]),
                (f"  {told}", "dim"),
                mark,
            )
        for lost in store.lost_baseline(host, deployment):
            yield Text(f"  note: {safe_line(lost)}", "yellow")


def document(store: History, names: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """`triage.history/1`."""
    return {
        "schema": "triage.history/1",
        "deployments": [
            {
                "host": host,
                "deployment": deployment,
                "baseline": store.pinned(host, deployment) or None,
                "results": [_result(result) for result in store.read(host, deployment)],
            }
            for host, deployment in names
        ],
    }


def figures(result: Verification) -> dict[str, float | None]:
    """The medians of a result: one stream's decode rate and TTFT, the throughput of most streams."""
    levels = levels_of(result.metrics)
    low = [one for one in result.metrics if one.level == levels[0]]
    high = [one for one in result.metrics if one.level == levels[-1]]
    return {
        "decode_rate": _median(one.decode_rate for one in low),
        "output_throughput": _median(one.output_throughput for one in high),
        "ttft_ms": _median(one.ttft_ms for one in low),
        "start": result.start.seconds if result.start.ready and result.start.restarted else None,
    }


def _result(result: Verification) -> dict[str, Any]:
    return {
        "at": result.at,
        "engine": result.engine,
        "version": result.version,
        "patches": list(result.patches),
        "verdict": result.verdict,
        "reason": result.reason,
        **figures(result),
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
