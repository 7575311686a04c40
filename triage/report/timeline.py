"""Timelines and records, for people and as `triage.timeline/1` and `triage.records/1`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from rich.text import Text

from triage.logs.model import Incident, LogSource, Record
from triage.logs.ranks import name_of
from triage.logs.views.timeline import LogTimelines, Timeline, TimelineEntry
from triage.report.safe import safe_line

SHOWN = 60
"""Entries of one run that are shown."""

NAMED = 3
"""Ranks that are named; of more only the number is."""

WIDTH = 160
SHOWN_CHARACTERS = 2000
"""Of one record; JSON has it whole."""

_STYLES = {
    "initiator": "bold red",
    "candidate": "bold yellow",
    "phase": "dim",
    "benign": "dim",
    "teardown": "dim",
}


def lines(log: LogTimelines) -> Iterator[Text]:
    """Every run with what happened in it, in order, the initiator marked."""
    found = log.timelines
    if not found:
        yield Text("No incident: the log holds no fault.", "bold green")
    for number, timeline in enumerate(found, 1):
        if number > 1:
            yield Text()
        yield from _run(timeline, number, len(found))


def _run(timeline: Timeline, number: int, count: int) -> Iterator[Text]:
    incident, entries = timeline.incident, timeline.entries
    yield Text(f"RUN {number} of {count}  {_about(incident)}", "bold")
    dates = {entry.time.date() for entry in entries if entry.time is not None}
    clocks = [_clock(entry.time, len(dates) > 1) for entry in entries]
    ranks = [_ranks(entry.ranks) for entry in entries]
    wide = max(map(len, clocks), default=0), max(map(len, ranks), default=0)
    for clock, who, entry in list(zip(clocks, ranks, entries, strict=True))[:SHOWN]:
        mark = {"initiator": "▶", "candidate": "?"}.get(entry.role, " ")
        yield Text.assemble(
            (f"  {clock:{wide[0]}}  {who:{wide[1]}}  ", "dim" if mark == " " else "bold"),
            (f"{mark} {entry.role:9}  ", _STYLES.get(entry.role, "")),
            (_said(entry), _STYLES.get(entry.role, "")),
        )
    if len(entries) > SHOWN:
        yield Text(f"  ... and {len(entries) - SHOWN} more: --format json has them all", "dim")
    if incident.silent_ranks:
        yield Text(f"  silent: {safe_line(', '.join(incident.silent_ranks))}", "dim")
    if incident.initiator is None:
        yield Text("  the log does not decide which of those marked ? came first", "yellow")


def _about(incident: Incident) -> str:
    facts = incident.facts
    layout = " ".join(
        f"{name}{facts[key]}"
        for name, key in (("pp", "pp_size"), ("tp", "tp_size"), ("dp", "dp_size"))
        if facts.get(key, "1") != "1"
    )
    engine = " ".join(filter(None, (facts.get("engine", ""), facts.get("version", ""))))
    time = _span(incident.started, incident.ended)
    times = f"failed {incident.count} times alike" if incident.count > 1 else ""
    return safe_line(" · ".join(filter(None, (engine, layout, time, times, incident.fingerprint))))


def _span(started: datetime | None, ended: datetime | None) -> str:
    if started is None or ended is None:
        return ""
    same = started.date() == ended.date()
    return f"{started:%Y-%m-%d %H:%M:%S} to {ended:{'%H:%M:%S' if same else '%Y-%m-%d %H:%M:%S'}}"


def _clock(time: datetime | None, dated: bool) -> str:
    if time is None:
        return ""
    return f"{time:%m-%d %H:%M:%S}" if dated else f"{time:%H:%M:%S}"


def _ranks(names: Sequence[str]) -> str:
    return safe_line(", ".join(names) if len(names) <= NAMED else f"{len(names)} ranks")


def _said(entry: TimelineEntry) -> str:
    text = safe_line(entry.text, WIDTH)
    fault = entry.fault
    if fault is None:
        return text
    if fault.count > 1:
        text += f"  ({fault.count} times)"
    if fault.frame is not None:
        frame = fault.frame
        text += safe_line(f"  at {frame.file.rpartition('/')[2]}:{frame.line} in {frame.function}", 120)
    return text


def record_line(record: Record, sources: Sequence[LogSource]) -> str:
    """Time, ranks, level and text; with the file where there are several."""
    time = "" if record.time is None else f"{record.time:%Y-%m-%d %H:%M:%S}"
    who = safe_line(name_of(record.ranks)) or "-"
    file = f"{safe_line(record.position.source.rpartition('/')[2], 40)}  " if len(sources) > 1 else ""
    level = f"{safe_line(record.level)}  " if record.level else ""
    return f"{time:19}  {file}{who:6}  {level}{safe_line(record.text, SHOWN_CHARACTERS)}".rstrip()


def document(log: LogTimelines) -> dict[str, Any]:
    """`triage.timeline/1`."""
    return {
        "schema": "triage.timeline/1",
        "incidents": [_incident(timeline) for timeline in log.timelines],
        "notes": list(log.notes),
    }


def _incident(timeline: Timeline) -> dict[str, Any]:
    incident = timeline.incident
    return {
        "id": incident.id,
        "fingerprint": incident.fingerprint,
        "started": _iso(incident.started),
        "ended": _iso(incident.ended),
        "count": incident.count,
        "facts": dict(incident.facts),
        "silent_ranks": list(incident.silent_ranks),
        "entries": [_entry(entry) for entry in timeline.entries],
    }


def _entry(entry: TimelineEntry) -> dict[str, Any]:
    fault = entry.fault
    found: dict[str, Any] = {
        "time": _iso(entry.time),
        "ranks": list(entry.ranks),
        "role": entry.role,
        "text": entry.text,
    }
    if fault is not None:
        found["count"] = fault.count
        found["because"] = list(fault.because)
        found["position"] = {"source": fault.position.source, "line": fault.position.line}
    return found


def records_json(records: Iterable[Record]) -> Iterator[str]:
    """`triage.records/1` in pieces, so that it is never held whole."""
    yield '{"schema": "triage.records/1", "records": ['
    mark = ""
    for record in records:
        yield f"{mark}{json.dumps(_record(record))}"
        mark = ",\n"
    yield "]}\n"


def _record(record: Record) -> dict[str, Any]:
    position = record.position
    return {
        "time": _iso(record.time),
        "ranks": sorted(record.ranks),
        "pid": record.pid,
        "level": record.level,
        "identifier": record.identifier,
        "text": record.text,
        "position": {"source": position.source, "line": position.line, "cursor": position.cursor},
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()
