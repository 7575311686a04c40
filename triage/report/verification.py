"""A verification as text, while it runs and when it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from triage.common.wording import counted
from triage.report import json, text
from triage.report.levels import level, levels
from triage.report.safe import safe_line
from triage.verify import events
from triage.verify.model import MetricChange, Metrics, Verification
from triage.workflows.verify_unit import VerifiedUnit

VERDICTS = {
    "better": "bold green",
    "same": "bold green",
    "worse": "bold yellow",
    "inconclusive": "bold yellow",
    "failed": "bold red",
}


def progress(event: events.Event) -> str:
    """What a person who waits would want to read of an event; "" for the rest."""
    if isinstance(event, events.Draining):
        others = counted(event.requests, "request") + " of others"
        run = "runs" if event.requests == 1 else "run"
        return f"{others} {run}; the restart waits {event.left:.0f} s at most"
    if isinstance(event, events.Restarting):
        return f"restarting {event.service}"
    if isinstance(event, events.ServiceStarted):
        return f"started, pid {event.pid}" + (f", attempt {event.attempt}" if event.attempt > 1 else "")
    if isinstance(event, events.PhaseReached):
        before = "" if event.before is None else f"  (last time {event.before:.1f} s)"
        return f"{event.phase.at:6.1f} s  {event.phase.name}{before}"
    if isinstance(event, events.Silent):
        return f"no line for {event.seconds:.0f} s: {event.doing}"
    if isinstance(event, events.Died):
        return f"died: {event.reason}"
    if isinstance(event, events.Ready):
        return f"ready after {event.seconds:.1f} s: a real completion came back"
    if isinstance(event, events.ToolStarted):
        return f"{event.tool}: {event.loads} loads"
    if isinstance(event, events.LoadStarted):
        how = f"{event.rate:g} a second" if event.rate else f"{event.concurrency} at a time"
        which = f"{event.repeat} of {event.repeats}"
        if event.repeat > event.repeats:
            which = f"{event.repeat}, as those before differ too much"
        return f"load {which}: {counted(event.requests, 'request')}, {how}"
    return ""


def lines(result: Verification) -> Iterator[Text]:
    """The result: the start, the figures, the verdict with its reason."""
    start = result.start
    named = (result.deployment, f"{result.engine} {result.version}".strip(), result.model)
    yield Text(safe_line(" · ".join(filter(None, named))), "bold")
    if start.ready:
        yield Text(f"ready {start.seconds:.1f} s after the restart" if start.restarted else "ready")
        if start.phases:
            told = ", ".join(safe_line(f"{phase.name} {phase.at:.1f} s") for phase in start.phases)
            yield Text(f"  {told}", "dim")
    else:
        yield Text(safe_line(f"not ready: {start.failure}"), "bold red")
    if result.sample:
        yield Text(f"it answered: {safe_line(result.sample, 80)}")
    if result.metrics:
        yield from _metrics(result.metrics)
    if result.by_tool is not None and result.by_tool.metrics:
        yield Text(safe_line(f"the same by {result.by_tool.tool} ({result.by_tool.note}):"))
        yield from _metrics(result.by_tool.metrics)
    for change in result.changes:
        yield Text(f"  {safe_line(_change(change))}")
    for note in result.notes:
        yield Text(f"note: {safe_line(note)}", "yellow")
    yield Text.assemble(
        ("VERDICT  ", "bold cyan"),
        (result.verdict, VERDICTS[result.verdict]),
        f": {safe_line(result.reason)}",
    )


def _metrics(all_metrics: tuple[Metrics, ...]) -> Iterator[Text]:
    """One line a level: the mean of its repeats."""
    titles = ("streams", "TTFT ms", "ITL ms", "decode tok/s", "all tok/s", "completed", "failed")
    yield Text("  " + "  ".join(f"{title:>12}" for title in titles), "dim")
    for one in levels(map(asdict, all_metrics)):
        cells = (
            one["level"],
            figure(one["ttft_ms"]),
            figure(one["itl_ms"]),
            figure(one["decode_rate"]),
            figure(one["output_throughput"]),
            str(one["completed"]),
            str(one["failed"]),
        )
        yield Text("  " + "  ".join(f"{cell:>12}" for cell in cells), "" if not one["failed"] else "red")
        for kind, count in one["failures"].items():
            yield Text(f"    {count} x {safe_line(kind)}", "red")


def _change(change: MetricChange) -> str:
    return (
        f"{change.figure} at {level(asdict(change))}: {change.before:.1f} -> {change.now:.1f} {change.unit} "
        f"({change.relative:+.1%}, spread {change.spread:.1%}): {change.verdict}"
    )


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def unit_lines(found: VerifiedUnit) -> Iterator[Text]:
    """The verification, and then the diagnosis of the start that died, or what the service does not run."""
    yield from lines(found.verification)
    if found.diagnosis is not None:
        yield Text()
        yield from text.lines(found.diagnosis)
    if found.behind:
        behind = ", ".join(found.behind)
        yield Text(f"applied but not running: {behind}; restart the service, which --no-restart did not")


def unit_document(found: VerifiedUnit) -> dict[str, Any]:
    """`triage.verification/1`."""
    return json.verification(found.verification, found.diagnosis)
