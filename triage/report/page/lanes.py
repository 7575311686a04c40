"""A lane for each rank, a column for each moment: who said what, when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from triage.logs.ranks import name_of, parts

MAX_LANES = 72
MAX_MOMENTS = 14
ORDER = ("phase", "benign", "teardown", "victim", "candidate", "initiator")
"""What is shown of several things at one place: the last of these."""


@dataclass(frozen=True)
class Mark:
    """What a rank did in a moment; `told` names all of it, one thing a line."""

    role: str
    told: str


@dataclass(frozen=True)
class Lane:
    name: str
    marks: tuple[Mark | None, ...]
    silent: bool = False


@dataclass(frozen=True)
class Lanes:
    """`moments` are clock times as they stand in the log, oldest first; `hidden` lanes did not fit."""

    moments: tuple[str, ...]
    lanes: tuple[Lane, ...]
    hidden: int = 0


@dataclass(frozen=True)
class _Event:
    second: str
    who: str
    role: str
    text: str


def lanes(incident: Mapping[str, Any]) -> Lanes:
    """Return the lanes of an incident of `triage.diagnosis/1`. Without times there is nothing to draw."""
    events = list(_events(incident))
    seconds = _moments(events)
    silent = set(incident["silent_ranks"])
    names = sorted({event.who for event in events} | silent, key=_order)
    first = [event.who for event in events if event.role == "initiator"]
    shown = [name for name in names if name in first] + [name for name in names if name not in first]
    kept = sorted(shown[:MAX_LANES], key=_order)
    rows = tuple(_lane(name, events, seconds, name in silent) for name in kept) if seconds else ()
    return Lanes(tuple(_clock(second) for second in seconds), rows, len(names) - len(kept))


def _events(incident: Mapping[str, Any]) -> list[_Event]:
    candidates = [fault["position"] for fault in incident["candidates"]]
    found = []
    for phase in incident["phases"]:
        for who in phase["ranks"] or ("service",):
            found.append(_Event((phase["time"] or "")[:19], who, "phase", phase["name"]))
    for fault in incident["faults"]:
        role = "candidate" if fault["position"] in candidates else fault["role"]
        text = f"{fault['type']}: {fault['message']}".partition("\n")[0][:200]
        for who in _lanes_of(fault, incident):
            found.append(_Event((fault["time"] or "")[:19], who, role, text))
    return [event for event in found if event.second]


def _lanes_of(fault: Mapping[str, Any], incident: Mapping[str, Any]) -> Sequence[str]:
    """Who it happened to: each rank where the same thing was said by several, else the one process."""
    ranks = sorted(fault["ranks"], key=parts)
    if not ranks:
        return ("service" if fault["pid"] is None else f"pid {fault['pid']}",)
    kinds = {parts(rank)[1] for rank in ranks}
    return ranks if len(kinds) == 1 else (name_of(ranks),)


def _moments(events: Sequence[_Event]) -> list[str]:
    """The seconds in which something happened; where they are many, those of faults before phases."""
    seconds = sorted({event.second for event in events})
    if len(seconds) <= MAX_MOMENTS:
        return seconds
    weight = dict.fromkeys(seconds, 0)
    for event in events:
        weight[event.second] = max(weight[event.second], ORDER.index(event.role) + 1)
    best = sorted(seconds, key=lambda second: (-weight[second], second))
    return sorted(best[:MAX_MOMENTS])


def _lane(name: str, events: Sequence[_Event], seconds: Sequence[str], silent: bool) -> Lane:
    marks: list[Mark | None] = []
    for second in seconds:
        here = [event for event in events if event.who == name and event.second == second]
        role = max((event.role for event in here), key=ORDER.index, default="")
        told = "\n".join(f"{event.role}: {event.text}" for event in here)
        marks.append(Mark(role, told) if here else None)
    return Lane(name, tuple(marks), silent)


def _order(name: str) -> tuple[bool, list[tuple[int, str, int]], str]:
    """Ranks first, each dimension in its usual order and by number."""
    found = [parts(label) for label in name.split()]
    return name.startswith(("pid ", "service")), found, name


def _clock(second: str) -> str:
    return second[11:19]
