"""The questions about a unit, as the systemd that has it is asked them: the system's, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from triage.evidence.catalogue import (
    Journal,
    JournalWindows,
    NamespaceJournal,
    NamespaceJournalWindows,
    UnitCommand,
    UnitProperties,
    UnitRuns,
    UnmetConditions,
    UserJournal,
    UserJournalWindows,
    UserUnitCommand,
    UserUnitProperties,
    UserUnitRuns,
    UserUnmetConditions,
)
from triage.evidence.model import Deployment


@dataclass(frozen=True)
class ManagerQueries:
    """`journal` and `windows` are asked with a unit and an invocation."""

    properties: type[UnitProperties]
    command: type[UnitCommand]
    runs: type[UnitRuns]
    unmet: type[UnmetConditions]
    journal: Callable[[str, str], Journal]
    windows: Callable[[str, str], JournalWindows]


_SYSTEM = ManagerQueries(UnitProperties, UnitCommand, UnitRuns, UnmetConditions, Journal, JournalWindows)
_USER = ManagerQueries(
    UserUnitProperties, UserUnitCommand, UserUnitRuns, UserUnmetConditions, UserJournal, UserJournalWindows
)


def about_units_of(manager: str) -> ManagerQueries:
    """The query about a unit, by a deployment's `manager`."""
    return _USER if manager == "systemd-user" else _SYSTEM


def about_unit_of(deployment: Deployment) -> ManagerQueries:
    """Those that read its journal where it is."""
    questions, namespace = about_units_of(deployment.manager), deployment.log_namespace
    if not namespace:
        return questions
    return replace(
        questions,
        journal=partial(NamespaceJournal, namespace=namespace),
        windows=partial(NamespaceJournalWindows, namespace=namespace),
    )
