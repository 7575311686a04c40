"""Layouts that were measured, as text and as `triage.bench/1`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from triage.report.history import TITLES
from triage.report.json import verification
from triage.report.safe import safe_line
from triage.report.verification import figure
from triage.verify.layouts.launch_commands import name_of
from triage.verify.load.metrics import medians
from triage.workflows.bench import Bench, MeasuredLayout


def lines(result: Bench) -> Iterator[Text]:
    yield Text(safe_line(f"{result.deployment}, which runs {name_of(result.before)}"), "bold")
    yield Text(f"  {'layout':10}  " + "  ".join(f"{title:>12}" for title in TITLES), "dim")
    for one in result.measured:
        yield from _row(one, one.layout == result.best)
    best = name_of(result.best) if result.best else "none"
    title = "BEST SO FAR" if result.left else "RECOMMENDED"
    yield Text.assemble(
        (f"{title}  ", "bold cyan"), (best, "bold green"), f": {safe_line(result.reason, 1000)}"
    )
    if result.left:
        yield Text(f"not measured: {', '.join(map(name_of, result.left))}", "yellow")
    for note in result.notes:
        yield Text(f"note: {safe_line(note)}", "yellow")


def _row(one: MeasuredLayout, best: bool) -> Iterator[Text]:
    name = name_of(one.layout)
    failed = one.verification.verdict == "failed"
    cells = "  ".join(f"{figure(value):>12}" for value in medians(one.verification).values())
    yield Text(f"  {name:10}  {cells}", "red" if failed else "bold" if best else "")
    if failed:
        yield Text(f"    failed: {safe_line(one.verification.reason)}", "red")
    if one.cause:
        yield Text(f"    {safe_line(one.cause)}", "red")


def document(result: Bench) -> dict[str, Any]:
    return {
        "schema": "triage.bench/1",
        "deployment": result.deployment,
        "before": asdict(result.before),
        "layouts": [
            {
                "name": name_of(one.layout),
                "layout": asdict(one.layout),
                "cause": one.cause,
                **medians(one.verification),
                "verification": verification(one.verification, None),
            }
            for one in result.measured
        ],
        "best": None if result.best is None else name_of(result.best),
        "reason": result.reason,
        "left": list(map(name_of, result.left)),
        "notes": list(result.notes),
    }
