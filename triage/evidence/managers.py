"""The questions about a unit, as the systemd that has it is asked them: the system's, or the user's own."""

from __future__ import annotations

from dataclasses import dataclass

from triage.evidence.queries import (
    Journal,
    JournalWindows,
    UnitCommand,
    UnitProperties,
    UnitRuns,
    UserJournal,
    UserJournalWindows,
    UserUnitCommand,
    UserUnitProperties,
    UserUnitRuns,
)


@dataclass(frozen=True)
class Questions:
    properties: type[UnitProperties]
    command: type[UnitCommand]
    runs: type[UnitRuns]
    journal: type[Journal]
    windows: type[JournalWindows]


_SYSTEM = Questions(UnitProperties, UnitCommand, UnitRuns, Journal, JournalWindows)
_USER = Questions(UserUnitProperties, UserUnitCommand, UserUnitRuns, UserJournal, UserJournalWindows)


def about_units_of(manager: str) -> Questions:
    """By a deployment's `manager`."""
    return _USER if manager == "systemd-user" else _SYSTEM
