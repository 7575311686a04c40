"""An incident as it went, one entry for each thing that happened: phases of the engine, then faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from triage.logs.model import Fault, Incident, Phase
from triage.logs.ranks import parts
from triage.logs.views.moments import ANY_TIME, Window

Redact = Callable[[str], str]


@dataclass(frozen=True)
class TimelineEntry:
    """One thing that happened. `role` is a fault's, `phase`, or `candidate` where the log does not decide."""

    time: datetime | None
    ranks: tuple[str, ...]
    role: str
    text: str
    fault: Fault | None = None


@dataclass(frozen=True)
class Timeline:
    """One run that failed, or several that failed alike (`incident.count`)."""

    incident: Incident
    entries: tuple[TimelineEntry, ...]


@dataclass(frozen=True)
class LogTimelines:
    """The timelines of a log's runs; `notes` say what was cut."""

    timelines: tuple[Timeline, ...]
    notes: tuple[str, ...] = ()


def timelines(
    incidents: Iterable[Incident], redact: Redact, window: Window = ANY_TIME
) -> tuple[Timeline, ...]:
    """Each incident with its entries in order; those of which none is in the window are left out."""
    found = []
    for incident in incidents:
        entries = [entry for entry in _entries(incident, redact) if entry.time in window]
        if any(entry.fault is not None for entry in entries):
            found.append(Timeline(incident, tuple(entries)))
    return tuple(found)


def _entries(incident: Incident, redact: Redact) -> list[TimelineEntry]:
    phases = list(incident.phases)
    entries = []
    for fault in incident.faults:
        while phases and _precedes(phases[0], fault, incident):
            entries.append(_phase(phases.pop(0), redact))
        entries.append(_fault(fault, incident, redact))
    return entries + [_phase(phase, redact) for phase in phases]


def _precedes(phase: Phase, fault: Fault, incident: Incident) -> bool:
    """Compare by time; without times, the last phase before the initiator is known."""
    one, other = phase.time, fault.time
    if (
        one is not None
        and other is not None
        and (one.tzinfo is None) == (other.tzinfo is None)
        and one != other
    ):
        return one < other
    names = [each.name for each in incident.phases]
    return incident.phase in names and names.index(phase.name) <= names.index(incident.phase)


def _phase(phase: Phase, redact: Redact) -> TimelineEntry:
    return TimelineEntry(phase.time, phase.ranks, "phase", redact(phase.name))


def _fault(fault: Fault, incident: Incident, redact: Redact) -> TimelineEntry:
    first = fault.message.strip().partition("\n")[0]
    role = "candidate" if fault in incident.candidates else fault.role
    text = redact(f"{fault.type}: {first}" if first else fault.type)
    return TimelineEntry(fault.time, tuple(sorted(fault.ranks, key=parts)), role, text, fault)
