"""Many hosts in one answer: what they have in common is shown once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from triage.common.errors import TriageError
from triage.common.wording import counted
from triage.report import json, text
from triage.report.safe import safe_line
from triage.workflows.diagnose import Report
from triage.workflows.fleet import FleetResult, HostOutcome, alike, exit_code

if TYPE_CHECKING:
    from triage.hosts.inventory.model import Host

NAMED = 16  # hosts that a heading names


def lines(fleet: FleetResult) -> Iterator[Text]:
    """Each incident once, with its hosts; then the hosts without one, those without an answer, a count."""
    outcomes = fleet.outcomes
    groups = alike(outcomes)
    for group in groups:
        yield Text(f"== {_hosts(group.hosts)}", "bold reverse")
        yield from text.lines(group.report)
        yield Text()
    without = {each.host.name: each.value for each in outcomes if each.value and not each.value.incidents}
    healthy = [name for name, report in without.items() if report.outcome == "nothing-failed"]
    unclear = [name for name in without if name not in healthy]
    failed = [each for each in outcomes if each.error is not None]
    if healthy:
        yield Text(f"no incident: {_hosts(healthy)}", "bold green")
    if unclear:
        yield Text(f"nothing recognised: {_hosts(unclear)}", "bold yellow")
    yield from _notes(without)
    for each in failed:
        yield Text(f"no answer:   {safe_line(each.host.name)}: {_error(each.error)}", "bold yellow")
    ill = sum(len(group.hosts) for group in groups)
    kinds = f" ({len(groups)} different ones)" if len(groups) > 1 else ""
    yield Text(
        f"{counted(len(outcomes), 'host')}: {ill} with an incident{kinds}, {len(without)} without, "
        f"{len(failed)} without an answer",
        "bold",
    )


def _notes(reports: Mapping[str, Report]) -> Iterator[Text]:
    """What was not read on hosts that seem well."""
    hosts: dict[str, list[str]] = {}
    for host, report in reports.items():
        for note in report.notes:
            hosts.setdefault(note, []).append(host)
    for note in [*hosts][:NAMED]:
        yield Text(f"note: {_hosts(hosts[note])}: {safe_line(note)}", "yellow")
    if len(hosts) > NAMED:
        yield Text(f"note: and {len(hosts) - NAMED} more notes", "yellow")


def document(fleet: FleetResult) -> dict[str, Any]:
    """`triage.fleet/1`."""
    return {
        "schema": "triage.fleet/1",
        "hosts": [
            {
                "name": each.host.name,
                "exit_code": int(exit_code(each)),
                "diagnosis": None if each.value is None else json.diagnosis(each.value),
                "error": None if each.error is None else _parts(each.error),
            }
            for each in fleet.outcomes
        ],
        "alike": [
            {
                "hosts": list(group.hosts),
                "fingerprint": group.fingerprint,
                "rule": group.rule or None,
                "certainty": group.certainty,
            }
            for group in alike(fleet.outcomes)
        ],
    }


def status(host: Host, outcome: HostOutcome[Report]) -> str:
    """What became of a host, in one line for the screen."""
    if outcome.value is None:
        return _error(outcome.error)
    if not outcome.value.incidents:
        return "no incident" if outcome.value.outcome == "nothing-failed" else "nothing recognised"
    last = outcome.value.incidents[-1]
    fault = last.incident.initiator
    return safe_line(
        f"{last.verdict.certainty}: {last.verdict.category}{f' ({fault.type})' if fault else ''}"
    )


def _hosts(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMED]) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return safe_line(shown if len(names) == 1 else f"{len(names)} hosts: {shown}", 2000)


def _error(error: Exception | None) -> str:
    told = (
        f"{error}. Next: {error.next}" if isinstance(error, TriageError) else f"{error!r}, a defect of triage"
    )
    return safe_line(told, 600)


def _parts(error: Exception) -> dict[str, str]:
    if isinstance(error, TriageError):
        return {"doing": error.doing, "to": error.to, "happened": error.happened, "next": str(error.next)}
    return {"doing": "diagnosing", "to": "", "happened": repr(error), "next": "report this defect of triage"}
