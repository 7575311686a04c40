"""`triage patch status`: what was changed on a host, and whether it still is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from triage.cli import next_command
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
)
from triage.cli.patch.options import LedgerOption, PythonOption, bare_tree
from triage.cli.patch.printing import print_lines
from triage.cli.reach import Reach
from triage.common.errors import UnreachableError

if TYPE_CHECKING:
    from triage.evidence.model import Deployment
    from triage.hosts.connection import Connection
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
    from triage.report.patching import document, outlook_document, outlook_lines

    with reach.connection(reach.host(host)) as connection:
        tree = bare_tree(connection, python, ledger)
        changes = transaction.status(tree)
        found = look(tree.agent, changes, _deployments(connection) if changes else ())
    nexts = [_command(outlook) for outlook in found]
    if format is Format.JSON:
        from triage.report import json

        said = [outlook_document(outlook, next) for outlook, next in zip(found, nexts, strict=True)]
        print(json.dumps({**document(host), "changes": said}))
    for outlook, next in zip(found, nexts, strict=True) if format is Format.TEXT else ():
        print_lines(outlook_lines(outlook, next))
    if format is Format.TEXT and not found:
        print(f"nothing was changed on {host}")


def _deployments(connection: Connection) -> Sequence[Deployment]:
    """The host's services; none where there are none to be found."""
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence

    try:
        return discover(LiveEvidence(connection))
    except UnreachableError:
        return ()


def _command(outlook: Outlook) -> str:
    """What comes next, with the options that this command has in common with it."""
    if outlook.next is None:
        return ""
    kept = ("ledger",) if outlook.next.verb[0] == "patch" else ()
    return str(outlook.next.plus(*next_command.given(*kept, *next_command.CONNECTION)))
