"""Options that several commands share."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.logs.model import LogSource


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
