"""What a page says in words: from what was seen back to why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triage.logs.ranks import parts
from triage.report.documents import Overview, ReportSection

NAMED = 8  # ranks that are named; of more only the number is


@dataclass(frozen=True)
class Link:
    """One step from the symptom to the cause; `code` is source, or ""."""

    kind: str
    who: str
    told: str
    where: str = ""
    code: str = ""


@dataclass(frozen=True)
class DiffLine:
    kind: str  # `added`, `removed`, `place`, `file`, ""
    text: str


def title(overviews: Sequence[Overview], parts: Sequence[ReportSection]) -> str:
    if overviews:
        return overviews[0].title
    document = parts[0].document
    if parts[0].kind == "diagnosis":
        name, place = document["deployment"]["name"], document["source"]["name"]
        return f"{name} on {place}" if name != place else str(name)
    if parts[0].kind == "verification":
        return str(document["deployment"])
    if parts[0].kind == "bench":
        return f"layouts of {document['deployment']}"
    if parts[0].kind == "plain":
        return str(document["schema"]).removesuffix("/1").replace(".", " ")
    return f"patches on {document['host']}"


def explanation(incident: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The diagnosis that stands, None where none does."""
    standing = [item for item in incident["diagnoses"] if item["outcome"] != "refuted"]
    return standing[0] if standing else None


def chain(incident: Mapping[str, Any], deployment: Mapping[str, Any]) -> Iterator[Link]:
    """Return the links from symptom to cause: how the service ended, who failed, who failed first, why."""
    if deployment["result"]:
        status = f", exit status {deployment['exit_status']}" if deployment["exit_status"] else ""
        yield Link("symptom", deployment["manager"], f"{deployment['state']} {deployment['result']}{status}")
    for role in ("teardown", "victim"):
        yield from _followers(incident, role)
    fault = incident["initiator"]
    if fault is not None:
        frame = fault["frame"]
        where = f"{frame['file']}:{frame['line']} in {frame['function']}" if frame else ""
        told = f"{fault['type']}: {fault['message']}".strip(": ")
        yield Link(
            "initiator", _who(fault["ranks"], fault["pid"]), told, where, frame["code"] if frame else ""
        )
    cause = explanation(incident)
    if cause is not None:
        yield Link("cause", certainty(incident), cause["title"])


def certainty(incident: Mapping[str, Any]) -> str:
    """How sure the explanation is; what is harmless by itself explains nothing."""
    cause = explanation(incident)
    if cause is not None and cause["role"] == "benign":
        return "harmless"
    return str(incident["verdict"]["certainty"])


def _followers(incident: Mapping[str, Any], role: str) -> Iterator[Link]:
    """Those of one role, alike ones together, the most frequent first."""
    faults = [fault for fault in incident["faults"] if fault["role"] == role]
    kinds = Counter(fault["type"] for fault in faults)
    for type, _ in kinds.most_common(5):
        alike = [fault for fault in faults if fault["type"] == type]
        ranks = [rank for fault in alike for rank in fault["ranks"]]
        first = alike[0]["message"].partition("\n")[0]
        more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
        yield Link(role, _who(ranks, alike[0]["pid"]), f"{type}: {first}".strip(": ") + more)
    if len(kinds) > 5:
        yield Link(role, "", f"and {len(kinds) - 5} other kinds")


def _who(ranks: Sequence[str], pid: int | None) -> str:
    named = sorted(set(ranks), key=parts)
    if len(named) > NAMED:
        return f"{len(named)} ranks"
    return ", ".join(named) or ("" if pid is None else f"pid {pid}")


def clock(time: str | None) -> str:
    return "" if time is None else time[11:19]


def figure(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def diff(text: str) -> Iterator[DiffLine]:
    kinds = {"+": "added", "-": "removed", "@": "place"}
    for line in text.splitlines():
        file = line.startswith(("---", "+++"))
        yield DiffLine("file" if file else kinds.get(line[:1], ""), line)
