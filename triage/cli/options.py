"""Options that several commands share, and the connection that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import next_command
from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.evidence.live import LiveEvidence
    from triage.hosts.connection import Connection
    from triage.hosts.inventory.inventory import Host
    from triage.logs.model import LogSource
    from triage.rules.schema import Rule
    from triage.workflows.diagnose import Knowledge


class Format(str, Enum):
    TEXT = "text"
    JSON = "json"


class HostKey(str, Enum):
    STRICT = "strict"
    ACCEPT_NEW = "accept-new"


HostArgument = Annotated[
    str, typer.Argument(metavar="HOST", help="`local`, an alias of your ssh config, or user@host:port.")
]
UnitOption = Annotated[str, typer.Option("--unit", "-u", help="The systemd unit, where a host has several.")]
FormatOption = Annotated[Format, typer.Option("--format", help="Text for people, or versioned JSON.")]
SshConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--ssh-config", "-F", envvar="TRIAGE_SSH_CONFIG", help="Instead of ~/.ssh/config.", show_default=False
    ),
]
HostKeyOption = Annotated[
    HostKey, typer.Option("--host-key", help="What to do with a host key that is not known yet.")
]
BecomeOption = Annotated[
    bool,
    typer.Option(
        "--become", "-b", callback=next_command.remember, help="Run commands on the host through sudo."
    ),
]
InventoryOption = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        "-i",
        metavar="FILE",
        help="hosts.yaml or an Ansible inventory; else $TRIAGE_INVENTORY, or that of the configuration.",
        show_default=False,
    ),
]
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
        next = f"triage explain {near[0]}" if near else "triage rules list"
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


@contextmanager
def connected(host: Host, ssh_config: Path | None, host_key: HostKey, become: bool) -> Iterator[Connection]:
    """An open connection to the host, closed afterwards. The next command of an error reaches it as well."""
    from triage.cli.targets import connection_options
    from triage.hosts import open_connection

    options = connection_options(host, ssh_config, host_key, become)
    with next_command.on(host.name):
        connection = open_connection(host.name, options)
        try:
            yield connection
        finally:
            connection.close()


@contextmanager
def live_evidence(
    host: Host, ssh_config: Path | None, host_key: HostKey, become: bool
) -> Iterator[LiveEvidence]:
    """Evidence from the host, redacted where it enters."""
    from triage.evidence.live import LiveEvidence

    with connected(host, ssh_config, host_key, become) as connection:
        yield LiveEvidence(connection)
