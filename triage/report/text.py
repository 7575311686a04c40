"""Text for people: what happened, why and how sure, what can be done."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.text import Text

from triage.common.commands import command
from triage.evidence.model import Deployment, Origin
from triage.hosts.typed_command import there
from triage.logs.model import Fault, Frame, Incident
from triage.report import explained, outcome
from triage.report.layout import layout_in_words
from triage.report.safe import safe_line
from triage.rules.diagnosis import CheckResult, Diagnosis, EvidenceTable, Excerpt, Remedy
from triage.workflows.diagnose import DiagnosedIncident, Report

if TYPE_CHECKING:
    from rich.console import Console

    from triage.workflows.unit_record import Restarts

WIDTH = 100
SHOWN_FAULTS = 6
_MARKS = {"pass": ("✓", "green"), "fail": ("✗", "red"), "missing": ("?", "yellow")}
_CERTAINTY = {"confirmed": "bold green", "likely": "bold yellow", "possible": "yellow", "unknown": "bold"}


def render(report: Report, console: Console) -> None:
    """Print the report. Everything that came from a log or host goes through `safe`."""
    for line in lines(report):
        console.print(line, soft_wrap=True, highlight=False)


def lines(report: Report) -> Iterator[Text]:
    yield from _header(report)
    if not report.incidents:
        yield Text()
        yield Text(outcome.heading(report), "bold green" if report.health else "bold yellow")
        for reason in outcome.reasons(report):
            yield Text(f"  {safe_line(reason, 300)}", "dim")
    for index, item in enumerate(report.incidents):
        yield Text()
        if len(report.incidents) > 1:
            yield Text(f"INCIDENT {index + 1} of {len(report.incidents)}", "bold reverse")
        yield from _incident(item, report)
    for note in report.notes:
        yield Text(f"note: {safe_line(note)}", "yellow")
    for other in report.others:
        state = " ".join(filter(None, (other.state, other.result)))
        chosen = other.chosen_by or other.name
        there = command("diagnose", report.origin.name, "--unit", chosen)
        yield Text(safe_line(f"also here: {other.name} ({state}): {there}"))


def _header(report: Report) -> Iterator[Text]:
    deployment = report.deployment
    engine = " ".join(filter(None, (deployment.engine, deployment.version)))
    parts = [
        report.origin.name,
        deployment.name,
        engine,
        layout_in_words(deployment, (item.incident for item in report.incidents)),
        deployment.model,
    ]
    seen = dict.fromkeys(safe_line(part) for part in parts if part)
    yield Text(" · ".join(seen), "bold")
    looping = report.restarts is not None and report.restarts.loop
    state = " ".join(filter(None, (deployment.state, "" if looping else deployment.result)))
    if state:
        status = f", exit status {deployment.exit_status}" if deployment.exit_status else ""
        yield Text(safe_line(f"{deployment.manager}: {state}{status}; started {deployment.started or '?'}"))
    if report.restarts:
        yield _restarts(report.restarts, report.origin.kind == "host", _restarter(deployment))
    if deployment.image:
        node = f" on node {deployment.node}" if deployment.node else ""
        yield Text(safe_line(f"image: {deployment.image}{node}"), "dim")
    if deployment.package_root:
        yield Text(safe_line(f"source: {deployment.package_root}"), "dim")
    for disagreement in deployment.disagreements:
        yield Text(f"! {safe_line(disagreement)}", "bold yellow")


def _restarter(deployment: Deployment) -> str:
    if deployment.manager in ("crictl", "kubectl"):
        return "the kubelet"
    return deployment.manager if deployment.container else "systemd"


def _restarts(restarts: Restarts, live: bool, by: str) -> Text:
    times = "once" if restarts.count == 1 else f"{restarts.count} times"
    words = f"restarting in a loop: {times}" if restarts.loop else f"restarted by {by} {times}"
    since = f" since {restarts.since}" if restarts.since and restarts.count > 1 else ""
    what = "end" if restarts.result == "success" else "failure"
    last = f", last {what} {restarts.last}" if restarts.last else ""
    how = f" ({restarts.result})" if restarts.result else ""
    return Text(safe_line(f"{words}{since}{last}{how}{_ago(restarts.last) if live else ''}"), "bold red")


def _ago(moment: str) -> str:
    """Return how long ago a moment was by the clock here, "" if the host's clock is ahead."""
    try:
        seconds = int((datetime.now(timezone.utc) - datetime.fromisoformat(moment)).total_seconds())
    except (ValueError, TypeError):
        return ""
    if seconds < 0:
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f", {seconds // size} {unit} ago"
    return f", {seconds} s ago"


def _incident(item: DiagnosedIncident, report: Report) -> Iterator[Text]:
    incident, deployment = item.incident, report.deployment
    yield Text("WHAT HAPPENED", "bold cyan")
    yield from _what_happened(incident, deployment.package_root)
    yield Text()
    causes = [entry for entry in item.diagnoses if entry.outcome != "refuted"]
    if causes:
        yield from _why(causes[0], item, deployment.package_root)
        yield Text()
        yield from _remedies(causes[0], report.origin)
    elif item.families:
        yield from _by_kind(item)
    else:
        yield Text.assemble(("WHY  ", "bold cyan"), ("unknown: no rule explains this", "bold"))
        yield Text(f"  fingerprint {incident.fingerprint}")
    if not causes:
        for near in item.nearest:
            yield Text(f"  near: {near.rule}, but {safe_line('; '.join(near.differs), 300)}", "dim")
    if item.explained is not None:
        yield Text()
        yield Text("WHY, FROM THE SOURCE", "bold cyan")
        yield from explained.lines(item.explained)
    for entry in item.diagnoses:
        if entry is not (causes[0] if causes else None):
            yield _also(entry)


def _by_kind(item: DiagnosedIncident) -> Iterator[Text]:
    """What an incident without a rule may be by its kind, why, and what to look at next."""
    best, *others = item.families
    yield Text.assemble(("WHY  ", "bold cyan"), (f"possible: {best.family.title}", _CERTAINTY["possible"]))
    yield Text(f"     no rule knows this fault; by its kind, category {best.family.category}", "dim")
    for seen in best.seen:
        yield Text(f"  because {safe_line(seen, 200)}")
    for other in others[:2]:
        if 2 * other.weight > best.weight and other.family.category != best.family.category:
            yield Text(f"  or {other.family.category}: {other.family.title}", "dim")
    yield Text(f"  fingerprint {item.incident.fingerprint}", "dim")
    yield Text()
    yield Text("WHAT TO LOOK AT NEXT", "bold cyan")
    for number, look in enumerate(best.family.look, 1):
        yield Text(f"  {number} {look.summary}")
        if look.command:
            yield Text(f"      {look.command}", "cyan")


def _what_happened(incident: Incident, root: str) -> Iterator[Text]:
    fault = incident.initiator
    shown = incident.candidates[:SHOWN_FAULTS] if fault is None else (fault,)
    if fault is None:
        several = len(incident.candidates) > 1
        left_open = "decide which of these came first" if several else "hold what came first, only this"
        yield Text(f"  The log does not {left_open}:", "bold")
        for candidate in shown:
            yield from _fault(candidate, root)
    else:
        yield from _fault(fault, root)
        for reason in fault.because:
            yield Text(f"    first because {safe_line(reason)}", "dim")
    if incident.phase:
        yield Text(f"  last phase before it: {safe_line(incident.phase)}")
    if incident.count > 1:
        yield Text(f"  the same run failed {incident.count} times{_between(incident)}", "bold")
    at = {each.position for each in shown}
    others = [other for other in incident.faults if other.position not in at and other.role != "benign"]
    for other in others[:SHOWN_FAULTS]:
        yield Text(
            f"  {other.role:8} {_clock(other.time)}{_who(other)}{safe_line(_message(other), 110)}", "dim"
        )
    if len(others) > SHOWN_FAULTS:
        yield Text(f"  ... and {len(others) - SHOWN_FAULTS} more", "dim")
    if incident.silent_ranks:
        silent = ", ".join(incident.silent_ranks)
        yield Text(f"  silent   {safe_line(silent)}: ended without a word of it", "dim")


def _between(incident: Incident) -> str:
    if incident.started is None or incident.ended is None:
        return ""
    return f", from {incident.started:%Y-%m-%d %H:%M:%S} to {incident.ended:%Y-%m-%d %H:%M:%S}"


def _fault(fault: Fault, root: str) -> Iterator[Text]:
    times = f"  ({fault.count} times)" if fault.count > 1 else ""
    yield Text.assemble(
        (f"  {_clock(fault.time)}{_who(fault)}", "bold"),
        (f"{safe_line(_message(fault), 300)}{times}", "bold red"),
    )
    if fault.frame is not None:
        yield from _frames(fault, fault.frame, root)
    position = fault.position
    place = f"log: {position.source} line {position.line}" if position.line else f"from {position.source}"
    yield Text(f"    {safe_line(place)}", "dim")


def _frames(fault: Fault, culprit: Frame, root: str) -> Iterator[Text]:
    """The culprit, and below it the accessor in which it ended."""
    yield Text(f"    at {_short(culprit.file, root)}:{culprit.line} in {safe_line(culprit.function)}")
    if culprit.code:
        yield Text(f"         {safe_line(culprit.code.strip())}", "bold")
    last = fault.frames[-1] if fault.frames else culprit
    if last != culprit:
        where = f"{last.file.rpartition('/')[2]}:{last.line} in {last.function}"
        yield Text(f"       -> {safe_line(where)}: {safe_line(last.code.strip())}")


def _why(diagnosis: Diagnosis, item: DiagnosedIncident, root: str) -> Iterator[Text]:
    certainty = item.verdict.certainty
    harmless = diagnosis.role == "benign"
    yield Text.assemble(
        ("WHY  ", "bold cyan"),
        ("no cause is known; harmless by itself: " if harmless else f"{certainty}: ", _CERTAINTY[certainty]),
        (safe_line(diagnosis.title), "bold"),
    )
    yield Text(f"     rule {diagnosis.rule}, category {diagnosis.category}", "dim")
    for paragraph in diagnosis.explanation.split("\n\n"):
        for line in textwrap.wrap(safe_line(paragraph, 2000), WIDTH - 2):
            yield Text(f"  {line}")
    yield Text()
    shown: set[tuple[str, int]] = set()
    for finding in diagnosis.findings:
        yield from _finding(finding)
        for excerpt in finding.excerpts:
            yield from _excerpt(excerpt, root, shown)
    for way in dict.fromkeys(finding.command for finding in diagnosis.findings if finding.command):
        yield Text(f"      to find out what is missing: {safe_line(str(way))}", "yellow")
    yield Text(f"  more: triage explain {diagnosis.rule}", "dim")


def _finding(finding: CheckResult) -> Iterator[Text]:
    mark, style = _MARKS[finding.result]
    kind = "ruled out" if finding.kind == "falsifier" and finding.result == "pass" else finding.kind
    yield Text.assemble((f"  {mark} ", style), (f"{kind:9} ", "dim"), safe_line(finding.detail))
    if finding.table is not None:
        yield from _table(finding.table)


def _excerpt(excerpt: Excerpt, root: str, shown: set[tuple[str, int]]) -> Iterator[Text]:
    """The lines of one file, unless an earlier excerpt showed the same ones."""
    meant = next((number for number, _, is_meant in excerpt.lines if is_meant), 0)
    if (excerpt.path, meant) in shown:
        return
    shown.add((excerpt.path, meant))
    yield Text(f"      {_short(excerpt.path, root)}", "dim")
    for number, code, is_meant in excerpt.lines:
        arrow = "▶" if is_meant else " "
        yield Text(f"      {arrow}{number:6} │ {safe_line(code, 160)}", "bold" if is_meant else "dim")


def _table(table: EvidenceTable) -> Iterator[Text]:
    rows = [[safe_line(cell) for cell in row] for row in (table.columns, *table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    for index, row in enumerate(rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield Text(f"      {'  '.join(cells).rstrip()}", "dim" if index == 0 else "")


def _remedies(diagnosis: Diagnosis, origin: Origin) -> Iterator[Text]:
    yield Text("WHAT CAN BE DONE", "bold cyan")
    way = there(origin.name) if origin.kind == "host" else ""
    if way and any(map(_is_for_the_host, diagnosis.remedies)):
        yield Text(safe_line(f"  run on {origin.name} ({way}); what begins with triage, here"), "dim")
    helpful = [remedy for remedy in diagnosis.remedies if remedy.helps is not False]
    for number, remedy in enumerate(helpful, 1):
        yield Text(f"  {number} {remedy.kind:8}{safe_line(remedy.summary)}", "bold")
        yield from _remedy(remedy)
    for remedy in diagnosis.remedies:
        if remedy.helps is False:
            yield Text(f"  - {remedy.kind:8}{safe_line(remedy.summary)} ({safe_line(remedy.proof)})", "dim")


def _is_for_the_host(remedy: Remedy) -> bool:
    """Whether its command is to be run there: settings are no commands, and triage runs here."""
    own = str(remedy.command).startswith("triage ")
    return bool(remedy.command) and remedy.kind in ("action", "upgrade") and not own


def _remedy(remedy: Remedy) -> Iterator[Text]:
    for line in str(remedy.command).splitlines():
        yield Text(f"             {safe_line(line, 2000)}", "green")
    if remedy.cost:
        yield Text(f"             costs: {safe_line(remedy.cost)}", "dim")
    if remedy.proof:
        yield Text(f"             proof: {safe_line(remedy.proof)}", "dim")


def _also(diagnosis: Diagnosis) -> Text:
    failed = [finding.detail for finding in diagnosis.findings if finding.result == "fail"]
    reason = f": {safe_line(failed[0], 160)}" if failed else ""
    return Text(f"also looked at: {diagnosis.rule} ({diagnosis.outcome}){reason}", "dim")


def _short(path: str, root: str) -> str:
    """A path below the engine's package from that package on; the header names where it lies."""
    base = root.rpartition("/")[0]
    return safe_line(path[len(base) + 1 :] if base and path.startswith(f"{base}/") else path)


def _message(fault: Fault) -> str:
    first = fault.message.strip().split("\n", 1)[0]
    return f"{fault.type}: {first}" if first else fault.type


def _who(fault: Fault) -> str:
    if fault.ranks:
        return f"{safe_line(', '.join(sorted(fault.ranks)))}  "
    return f"pid {fault.pid}  " if fault.pid is not None else ""


def _clock(time: datetime | None) -> str:
    return "" if time is None else f"{time:%H:%M:%S}  "
