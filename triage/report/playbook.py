"""A run and a plan as text for people. Everything that came from a host goes through `safe`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from triage.common.problems import spelled
from triage.playbook.model import (
    ConsentAsked,
    Done,
    Event,
    Failed,
    Result,
    Retried,
    Skipped,
    StepRefused,
    StepStarted,
)
from triage.playbook.plan import PlannedRun, PlannedStep
from triage.playbook.waves import RollOut
from triage.report.safe import safe, safe_line

_DIFF = {"+": "green", "-": "red", "@": "cyan"}
_RUNS = {"yes": ("▶", "bold"), "no": ("-", "dim"), "decided at run time": ("?", "bold yellow")}
_STATUS = {"done": "bold green", "failed": "bold red", "refused": "bold yellow"}


def event_lines(event: Event) -> Iterator[Text]:
    if isinstance(event, StepStarted):
        call = "" if event.do in ("set", "stop") else f"  {_call(event.do, event.arguments)}"
        yield Text.assemble((f"▶ {safe_line(event.step)}", "bold"), (call, "dim"))
    elif isinstance(event, Skipped):
        yield Text(f"- {safe_line(event.step)}  skipped, {safe_line(event.reason, 160)}", "dim")
    elif isinstance(event, Done):
        yield from _detail(event.detail)
        yield Text.assemble(("  ✓ ", "green"), safe_line(event.summary))
    elif isinstance(event, Failed):
        yield from _detail(event.detail)
        reason = f"{safe_line(event.step)}: {safe_line(event.reason, 2000)}"
        yield Text.assemble(("  ✗ ", "red"), (reason, "bold"))
        if event.next:
            yield Text(f"    next: {safe_line(event.next)}", "yellow")
    elif isinstance(event, Retried):
        again = f"attempt {event.attempt} of {event.attempts} failed, again in {event.seconds:g} s"
        yield Text(f"  ? {again}: {safe_line(event.reason)}", "yellow")
    elif isinstance(event, StepRefused):
        yield Text.assemble(("  ✗ ", "yellow"), ("not done: consent was refused", "bold"))


def question(asked: ConsentAsked) -> str:
    return f"{safe_line(asked.step)}: {_call(asked.do, asked.arguments)} on {safe_line(asked.host)}?"


def run_document(result: Result) -> dict[str, Any]:
    """`triage.run/1`."""
    return result.as_json()


def run_lines(result: Result) -> Iterator[Text]:
    yield result_line(result)


def result_line(result: Result) -> Text:
    reason = f": {safe_line(result.reason, 2000)}" if result.reason else ""
    status = (result.status, _STATUS[result.status])
    return Text.assemble(f"{result.playbook} on {safe_line(result.host)}: ", status, reason)


def plan_document(run: PlannedRun) -> dict[str, Any]:
    """`triage.run-check/1`."""
    return {
        "schema": "triage.run-check/1",
        "playbook": {"name": run.playbook.name, "file": run.playbook.file},
        "host": run.host,
        "steps": [step.as_json() for step in run.steps],
    }


def plan_lines(run: PlannedRun) -> Iterator[Text]:
    yield Text(f"{run.playbook.name} on {safe_line(run.host)}, without doing any of it:", "bold")
    for step in run.steps:
        mark, style = _RUNS[step.runs]
        known = {name: value for name, value in step.arguments.items() if name not in step.open}
        indent = "    " if step.after else "  "
        yield Text.assemble((f"{indent}{mark} {safe_line(step.name)}", style), f"  {_call(step.do, known)}")
        for note in _notes(step):
            yield Text(f"{indent}    {note}", "dim")


def _notes(step: PlannedStep) -> Iterator[str]:
    if step.after:
        yield f"when {safe_line(step.after)} fails"
    if step.runs != "yes":
        runs = "not done" if step.runs == "no" else step.runs
        yield f"{runs}: when {safe_line(' '.join(step.when.split()))}"
    if step.open and step.runs != "no":
        yield f"with, known at run time: {', '.join(step.open)}"
    if step.consent:
        yield "asks for consent"
    if step.retry is not None:
        yield f"up to {step.retry.count + 1} attempts, {step.retry.seconds:g} s apart"


def _call(do: str, arguments: Mapping[str, Any]) -> str:
    """The verb with its arguments, without those that are empty."""
    given = (f"{name}={spelled(value)}" for name, value in arguments.items() if value != "")
    return safe_line(" ".join([do, *given]))


def _detail(detail: str) -> Iterator[Text]:
    for line in safe(detail).splitlines():
        yield Text(f"    {line}", _DIFF.get(line[:1], ""))


def rollout_document(result: RollOut) -> dict[str, Any]:
    """`triage.rollout/1`."""
    return {
        "schema": "triage.rollout/1",
        "playbook": result.playbook,
        "waves": [
            [
                {"host": run.host, "exit_code": run.exit_code, "error": run.error, "run": run.document}
                for run in wave
            ]
            for wave in result.waves
        ],
        "left": list(result.left),
        "exit_code": result.exit_code,
    }


def rollout_lines(result: RollOut) -> Iterator[Text]:
    """Which hosts were not touched; the others were told of as they ended."""
    if result.left:
        yield Text(f"stopped; not touched: {safe_line(', '.join(result.left))}", "yellow")
