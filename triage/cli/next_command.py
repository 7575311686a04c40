"""The next command, with the options that the user gave to this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

import typer
from typer.core import TyperOption

from triage.common.commands import Next, NextCommand
from triage.common.errors import TriageError

if TYPE_CHECKING:
    from triage.rules.diagnosis import Diagnosis
    from triage.workflows.diagnose import Report
    from triage.workflows.fleet import HostOutcome

T = TypeVar("T")
CONNECTION = ("ssh_config", "host_key", "become", "inventory")
_command: ContextVar[typer.Context | None] = ContextVar("command", default=None)


def remember(context: typer.Context) -> None:
    """Take over from this command from now on."""
    _command.set(context)


def given(*names: str) -> list[str]:
    """The options of those parameters that stand on this command's own command line."""
    context = _command.get()
    if context is None:
        return []
    options = [option for option in context.command.params if isinstance(option, TyperOption)]
    words: list[str] = []
    for option in options:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if name in names and source is not None and source.name == "COMMANDLINE":
            words += _spelled(option, context.params[name])
    return words


def reaching(next: Next) -> Next:
    """Return a command with this call's connection options, if it is a command for a host."""
    return next.reaching(given(*CONNECTION)) if isinstance(next, NextCommand) else next


@contextmanager
def reached() -> Iterator[None]:
    """Errors raised within name a next command that reaches the host as this one did."""
    try:
        yield
    except TriageError as error:
        error.next = reaching(error.next)
        raise


def in_outcomes(outcomes: Iterable[HostOutcome[Report]]) -> tuple[HostOutcome[Report], ...]:
    """Those of several hosts, whose commands and errors reach each as this command did."""
    return tuple(replace(each, value=each.value and in_report(each.value)) for each in told(outcomes))


def told(outcomes: Iterable[HostOutcome[T]]) -> Iterator[HostOutcome[T]]:
    """The outcomes, whose errors name a next command that reaches the host as this one did."""
    for each in outcomes:
        if isinstance(each.error, TriageError):
            each.error.next = reaching(each.error.next)
        yield each


def in_report(report: Report) -> Report:
    """The report, whose commands reach the host as this one did."""

    def diagnosis(item: Diagnosis) -> Diagnosis:
        remedies = tuple(replace(each, command=reaching(each.command)) for each in item.remedies)
        findings = tuple(replace(each, command=reaching(each.command)) for each in item.findings)
        return replace(item, remedies=remedies, findings=findings)

    found = (
        replace(item, diagnoses=tuple(diagnosis(each) for each in item.diagnoses))
        for item in report.incidents
    )
    return replace(report, incidents=tuple(found))


def _spelled(option: TyperOption, value: object) -> list[str]:
    if isinstance(value, bool):
        return [(option.opts if value else option.secondary_opts)[0]]
    values = value if isinstance(value, (list, tuple)) else (value,)
    texts = (str(item.value if isinstance(item, Enum) else item) for item in values)
    return [word for text in texts for word in (option.opts[0], text)]
