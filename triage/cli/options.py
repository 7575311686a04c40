"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.common.commands import command
from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.logs.model import LogSource
    from triage.rules.schema import Rule
    from triage.workflows.diagnose import Knowledge


class Format(str, Enum):
    TEXT = "text"
    JSON = "json"


HostArgument = Annotated[
    str, typer.Argument(metavar="HOST", help="`local`, an alias of your ssh config, or user@host:port.")
]
UnitOption = Annotated[str, typer.Option("--unit", "-u", help="The systemd unit, where a host has several.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Text for people, or versioned JSON.")]
RulesOption = Annotated[
    list[Path] | None, typer.Option("--rules", help="A directory of further rules.", show_default=False)
]
LogFormatOption = Annotated[
    str,
    typer.Option(
        "--log-format",
        help="The layers of the log's lines, outermost first: `journal,native`. Else they are found out.",
        show_default=False,
    ),
]


def knowledge(rules: Iterable[Path] | None = None) -> Knowledge:
    """Shipped rules and patches, those of the configuration, and those of the directories given here.

    Raises UsageError for a broken file.
    """
    from triage.common.config import load_config
    from triage.workflows import diagnose

    return diagnose.load_knowledge(rule_directories(rules), load_config().patches)


def rule_directories(rules: Iterable[Path] | None = None) -> tuple[Path, ...]:
    """Of the configuration and of the command line. Raises UsageError."""
    from triage.common.config import load_config, with_configured

    return with_configured(load_config().rules, rules)


def find_rule(id: str, rules: Iterable[Path] | None = None) -> Rule:
    """The rule of that id. Raises UsageError that names similar ones."""
    from triage.rules.load import load_rules

    known = {rule.id: rule for rule in load_rules(rule_directories(rules))}
    if id not in known:
        from difflib import get_close_matches

        near = get_close_matches(id, known, 3)
        next = command("explain", "", near[0]) if near else command("rules list")
        similar = f"; there is {', '.join(near)}" if near else ""
        raise UsageError("looking for rule", id, f"there is no such rule{similar}", next)
    return known[id]


def given_logs(log: str | None, format: str = "") -> tuple[LogSource, ...]:
    """The log that the user named, opened, to be read as `format` if given. Raises TriageError."""
    if log is None:
        return ()
    if not log:
        raise UsageError(
            "reading the log", "''", "this names no file", "name a file, or - for standard input"
        )
    from triage.logs.formats import named
    from triage.logs.reading.load import open_log

    if format:
        named(format)
    return (replace(open_log(log), format=format),)
