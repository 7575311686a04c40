"""Options that the commands of `triage patch` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from triage.hosts.connection import Connection
    from triage.patching.schema import Patch
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
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Agree beforehand.")]


def bare_tree(connection: Connection, python: str, ledger: str) -> HostTree:
    """A host whose ledger is asked for; any interpreter will do."""
    from triage.patching.transaction import HostTree

    return HostTree(connection, (), python, ledger)


def known_patches(patches: list[Path] | None) -> tuple[Patch, ...]:
    """The shipped patches, those of the configuration, and those of directories. Raises UsageError."""
    from triage.config import load_config, with_configured
    from triage.patching.load import load_patches

    return load_patches(with_configured(load_config().patches, patches))
