"""Options that the commands of `triage patch` share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.common.errors import UsageError

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


def known_patches(patches: list[Path] | None) -> tuple[Patch, ...]:
    """The shipped patches, those of the configuration, and those of directories. Raises UsageError."""
    from triage.common.config import load_config, with_configured
    from triage.patching.load import load_patches

    return load_patches(with_configured(load_config().patches, patches))


def facts_of(given: list[str] | None) -> dict[str, str]:
    """What `--given` says. Raises UsageError."""
    facts = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError("reading", f"--given {item}", "it is not NAME=VALUE", "--given pool_class=NAME")
        facts[name] = value
    return facts
