"""`triage patch status`: what was changed on a host, and whether it still is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from triage.cli import console, next_command
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
)
from triage.cli.patch.options import LedgerOption, PythonOption, bare_tree
from triage.cli.reach import Reach

if TYPE_CHECKING:
    from triage.patching.change_status import Outlook


@with_groups
def status(
    host: HostArgument,
    python: PythonOption = "",
    ledger: LedgerOption = "",
    format: FormatOption = Format.TEXT,
    *,
    reach: Reach,
) -> None:
    """What was changed on HOST, whether it still is, and whether the services there run it."""
    from triage.patching import transaction
    from triage.patching.change_status import look
    from triage.workflows.patch import PatchStatus, services_of

    with reach.connection(reach.host(host)) as connection:
        tree = bare_tree(connection, python, ledger)
        changes = transaction.status(tree)
        found = look(tree.agent, changes, services_of(connection) if changes else ())
    shown = tuple((outlook, _command(outlook)) for outlook in found)
    console.show(PatchStatus(host, shown), format)


def _command(outlook: Outlook) -> str:
    """What comes next, with the options that this command has in common with it."""
    if outlook.next is None:
        return ""
    kept = ("ledger",) if outlook.next.verb[0] == "patch" else ()
    return str(outlook.next.plus(*next_command.given(*kept, *next_command.CONNECTION)))
