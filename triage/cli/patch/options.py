"""Options that the commands of `triage patch` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.common.errors import RefusedError

if TYPE_CHECKING:
    from triage.hosts.connection import Connection
    from triage.patching.transaction import HostTree

PythonOption = Annotated[
    str,
    typer.Option("--python", help="The host's interpreter of that tree; found by itself where a service is."),
]
LedgerOption = Annotated[
    str,
    typer.Option(
        "--ledger",
        envvar="TRIAGE_LEDGER",
        help="Where HOST keeps record and backups: /var/lib/triage for root, else ~/.local/state/triage.",
        show_default=False,
    ),
]
ChangeOption = Annotated[
    str, typer.Option("--id", help="A patch or a change; may be left out where only one is applied.")
]
PatchesOption = Annotated[
    list[Path] | None, typer.Option("--patches", help="A directory of further patches.", show_default=False)
]
GivenOption = Annotated[
    list[str] | None,
    typer.Option(
        "--given",
        metavar="NAME=VALUE",
        help="What is known of the deployment: pool_class=MLATokenToKVPool.",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Agree beforehand.")]


def bare_tree(connection: Connection, python: str, ledger: str) -> HostTree:
    """A host whose ledger is asked for; any interpreter will do."""
    from triage.patching.transaction import HostTree

    return HostTree(connection, (), python, ledger)


def nobody_agreed(doing: str, to: str) -> RefusedError:
    return RefusedError(doing, to, "nobody agreed to it", "answer yes, or agree beforehand with --yes")
