"""Documents that `--format json` printed, read back: a report is made of them, today or a year later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from triage.common.errors import UsageError
from triage.common.files import read_json_file
from triage.common.json import parse_json
from triage.common.wording import counted
from triage.report.safe import safe

KINDS: Mapping[str, Kind] = {
    "triage.diagnosis/1": "diagnosis",
    "triage.patch/1": "patch",
    "triage.verification/1": "verification",
    "triage.bench/1": "bench",
}
RUN, FLEET, ROLLOUT = "triage.run/1", "triage.fleet/1", "triage.rollout/1"
PLAIN = (  # those that are shown as tables
    *("triage.hosts/1", "triage.hosts-check/1", "triage.links/1", "triage.history/1", "triage.capture/1"),
    *("triage.case-contents/1", "triage.timeline/1", "triage.records/1", "triage.replay/1"),
    *("triage.rules/1", "triage.rules-matrix/1", "triage.run-check/1", "triage.scan/1", "triage.policy/1"),
    "triage.why/1",
)

Kind = Literal["diagnosis", "patch", "verification", "bench", "step", "plain"]


@dataclass(frozen=True)
class ReportSection:
    """One part of a report: a document, or what became of a step or host that gave none (`kind` "step")."""

    kind: Kind
    document: Mapping[str, Any]
    title: str = ""
    status: str = ""
    summary: str = ""
    alone: bool = True  # False: beside others, with which it is compared, and not with what was before


@dataclass(frozen=True)
class Overview:
    """What became of each part of a whole: of the steps of a run, of the hosts of a fleet or roll-out."""

    title: str
    status: str
    reason: str
    parts: tuple[ReportSection, ...]


def read_document(path: Path) -> dict[str, Any]:
    """The document in a file, `-` for standard input. Raises UsageError for anything else in it."""
    try:
        document = parse_json(read_json_file(Path("/dev/stdin") if str(path) == "-" else path))
    except ValueError as error:
        raise _unfit(path, f"it is not JSON: {error}") from None
    known = (*KINDS, RUN, FLEET, ROLLOUT, *PLAIN)
    if not isinstance(document, dict) or document.get("schema") not in known:
        raise _unfit(path, f"its schema is none of {', '.join(known)}")
    found: dict[str, Any] = cleaned(document)
    return found


def overviews(document: Mapping[str, Any]) -> Iterator[Overview]:
    """Yield the overview of a run, a fleet or a roll-out, and of a roll-out those of its hosts' runs."""
    if document["schema"] == RUN:
        title = f"{document['playbook']['name']} on {document['host']}"
        steps = tuple(map(_step, document["steps"]))
        yield Overview(title, document["status"], document["reason"], steps)
    elif document["schema"] == FLEET:
        hosts = tuple(map(_host, document["hosts"]))
        kinds = len(document["alike"])
        yield Overview(
            counted(len(hosts), "host"), "", f"{kinds} kind{'s' * (kinds != 1)} of incident", hosts
        )
    elif document["schema"] == ROLLOUT:
        yield _rollout(document)
        for run in (host["run"] for wave in document["waves"] for host in wave):
            if run is not None:
                yield from overviews(run)


def sections(document: Mapping[str, Any]) -> Iterator[ReportSection]:
    """The parts of a document: of a run, each step that was done; of a failed start, its diagnosis too."""
    if document["schema"] == RUN:
        for step in document["steps"]:
            if KINDS.get(step["data"].get("schema", "")):
                yield from _titled(step["data"], step["name"], step["status"], step["summary"])
            else:
                yield _step(step)
    elif document["schema"] == FLEET:
        yield from _fleet(document)
    elif document["schema"] == ROLLOUT:
        for wave in document["waves"]:
            for host in wave:
                yield from _of_host(host)
    elif document["schema"] in PLAIN:
        yield ReportSection("plain", document)
    else:
        yield from _titled(document)


def _rollout(document: Mapping[str, Any]) -> Overview:
    begun = [
        ReportSection("step", {}, f"wave {number}: {host['host']}", *_became(host))
        for number, wave in enumerate(document["waves"], 1)
        for host in wave
    ]
    left = [ReportSection("step", {}, name, "skipped", "not touched") for name in document["left"]]
    status = "failed" if document["exit_code"] else "done"
    reason = f"stopped; {len(left)} not touched" if left else ""
    title = f"{document['playbook']} on {counted(len(begun) + len(left), 'host')}"
    return Overview(title, status, reason, (*begun, *left))


def _became(host: Mapping[str, Any]) -> tuple[str, str]:
    """Status and reason of a host of a roll-out."""
    run = host["run"]
    return ("failed", host["error"]) if run is None else (run["status"], run["reason"])


def _of_host(host: Mapping[str, Any]) -> Iterator[ReportSection]:
    """The parts of its run, under its name."""
    if host["run"] is None:
        yield ReportSection("step", {}, host["host"], *_became(host))
        return
    for part in sections(host["run"]):
        yield replace(part, title=f"{host['host']}: {part.title}")


def _titled(
    document: Mapping[str, Any], title: str = "", status: str = "", summary: str = ""
) -> Iterator[ReportSection]:
    """A document, and those in it."""
    yield ReportSection(KINDS[document["schema"]], document, title, status, summary)
    before = f"{title}: " if title else ""
    if document.get("diagnosis"):
        yield ReportSection("diagnosis", document["diagnosis"], f"{before}why it died")
    if KINDS[document["schema"]] == "bench":
        for layout in document["layouts"]:
            name = f"{before}{layout['name']}"
            yield ReportSection(
                "verification", layout["verification"], name, summary=layout["cause"], alone=False
            )


def _fleet(document: Mapping[str, Any]) -> Iterator[ReportSection]:
    """Each incident once, under the names of its hosts; the other hosts in a line each."""
    shown = {group["hosts"][0]: group["hosts"] for group in document["alike"]}
    for host in document["hosts"]:
        if host["diagnosis"] is not None and host["name"] in shown:
            yield ReportSection("diagnosis", host["diagnosis"], ", ".join(shown[host["name"]]))
        else:
            yield _host(host)


def _step(step: Mapping[str, Any]) -> ReportSection:
    return ReportSection("step", {}, step["name"], step["status"], step["summary"])


def _host(host: Mapping[str, Any]) -> ReportSection:
    error, found = host["error"], host["diagnosis"]
    if found is None:
        told = f"{error['doing']} {error['to']}: {error['happened']}"
        return ReportSection("step", {}, host["name"], "failed", told)
    if not found["incidents"]:
        unclear = found.get("outcome") == "not-recognised"
        told = "nothing recognised" if unclear else "no incident"
        return ReportSection("step", {}, host["name"], "skipped" if unclear else "done", told)
    verdict = found["incidents"][-1]["verdict"]
    return ReportSection("step", {}, host["name"], verdict["certainty"], verdict["category"])


def cleaned(value: Any) -> Any:
    """Return the data without anything in its texts that could steer a terminal or turn text around."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, dict):
        return {safe(name): cleaned(item) for name, item in value.items()}
    return [cleaned(item) for item in value] if isinstance(value, (list, tuple)) else value


def _unfit(path: Path, happened: str) -> UsageError:
    return UsageError(
        "making a report of", str(path), happened, "triage diagnose HOST --format json > document.json"
    )
