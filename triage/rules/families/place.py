"""A fault without a rule -> the families that it may belong to, best first.

A family is weighed by how much its clue asks for: the characters that are always the same in what the
patterns match, and a fixed worth for a file of the traceback and for the phase.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice

from triage.common.patterns import literals
from triage.logs.model import Fault, Incident
from triage.rules.diagnosis import IncidentVerdict
from triage.rules.families.load import load_families
from triage.rules.families.schema import Clue, FaultFamily
from triage.rules.match import MATCHED_CHARS
from triage.rules.specificity import COMMON

FRAME_WORTH = 8
PHASE_WORTH = 4
CULPRIT_WORTH = 4
ENDED = "engine-dead"
MOST = 12
"""Faults of an incident that are asked."""

INNERMOST = 12
"""Files of a traceback, counted from where it was raised, that tell the place of a fault."""


@dataclass(frozen=True)
class PlacedFault:
    """A family, what it was weighed with, and in words what was seen of it."""

    family: FaultFamily
    weight: int
    seen: tuple[str, ...]


def families_of(incident: Incident) -> tuple[PlacedFault, ...]:
    """The kinds of fault that an incident may be: of its initiator, or, where the log leaves that open or it
    only says that a process ended, of the first other fault that says more."""
    families = load_families()
    first = (incident.initiator,) if incident.initiator else incident.candidates
    others = (fault for fault in incident.faults if fault.role == "victim" and fault not in first)
    ended: tuple[PlacedFault, ...] = ()
    for fault in islice((*first, *others), MOST):
        found = placed(fault, incident.phase, families)
        if found and found[0].family.category != ENDED:
            return found
        if fault in first:
            ended = ended or found
    return ended


def by_family(found: Sequence[PlacedFault]) -> IncidentVerdict | None:
    """What the best family says: never more than `possible`."""
    return IncidentVerdict(found[0].family.category, "possible", "family") if found else None


def placed(fault: Fault, phase: str, families: Iterable[FaultFamily]) -> tuple[PlacedFault, ...]:
    """The families of which a clue holds for the fault, the weightiest first."""
    said = _said(fault)
    files = tuple(dict.fromkeys(frame.file for frame in reversed(fault.frames[-INNERMOST:])))
    found = []
    for family in families:
        tried = (_held(clue, fault, said, files, phase) for clue in family.clues)
        best = max(tried, key=lambda one: one[0])
        if best[0]:
            found.append(PlacedFault(family, *best))
    return tuple(sorted(found, key=lambda one: (-one.weight, one.family.id)))


def _said(fault: Fault) -> str:
    """What the fault says with its class, and what the exceptions that it came with say."""
    return "\n".join(
        f"{one.type}: {one.message[:MATCHED_CHARS]}" for one in (fault, *fault.chain[-4:], *fault.members[:4])
    )


def _held(
    clue: Clue, fault: Fault, said: str, files: tuple[str, ...], phase: str
) -> tuple[int, tuple[str, ...]]:
    """The worth of a clue and what was seen of it; (0, ()) where it does not hold."""
    weight, seen = 0, []
    if clue.unless and _compiled(clue.unless).search(said):
        return 0, ()
    if clue.message:
        match = _compiled(clue.message).search(said)
        if match is None:
            return 0, ()
        weight += max(literals(clue.message), len(match[0]) // 2, 1)
        seen.append(f"it says {' '.join(match[0].split())[:80]!r}")
    if clue.exception:
        if not _compiled(clue.exception).search(fault.type):
            return 0, ()
        weight += 1 if fault.type in COMMON else 6
        seen.append(f"it is a {fault.type}")
    if clue.frames:
        file = next(_fitting(clue.frames, files), "")
        if not file:
            return 0, ()
        culprit = fault.frame is not None and fault.frame.file == file
        weight += FRAME_WORTH + CULPRIT_WORTH * culprit
        seen.append(f"it was raised below {'/'.join(file.split('/')[-3:])}")
    if clue.phase:
        if not _compiled(clue.phase).search(phase):
            return 0, ()
        weight += PHASE_WORTH
        seen.append(f"it came in the phase {phase!r}")
    return weight, tuple(seen)


def _fitting(globs: Iterable[str], files: Iterable[str]) -> Iterator[str]:
    globs = tuple(globs)
    return (file for file in files if any(fnmatchcase(file, f"*{glob}") for glob in globs))


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
