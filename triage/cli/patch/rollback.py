"""`triage patch rollback`: the exact bytes from before a change."""

from __future__ import annotations

from triage.cli import console
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
)
from triage.cli.patch.options import (
    ChangeOption,
    LedgerOption,
    PythonOption,
    YesOption,
    bare_tree,
    nobody_agreed,
)
from triage.cli.reach import Reach


@with_groups
def rollback(
    host: HostArgument,
    id: ChangeOption = "",
    python: PythonOption = "",
    ledger: LedgerOption = "",
    yes: YesOption = False,
    format: FormatOption = Format.TEXT,
    *,
    reach: Reach,
) -> None:
    """Put the exact bytes back from before a change on HOST."""
    from triage.patching import transaction
    from triage.patching.ledger import choose
    from triage.workflows.patch import PatchResult

    with reach.connection(reach.host(host)) as connection:
        tree = bare_tree(connection, python, ledger)
        chosen = choose(transaction.status(tree), id, host)
        if not console.agreed(f"Take back {chosen.id} on {host}?", yes):
            raise nobody_agreed("rolling back", f"{chosen.id} on {host}")
        change = transaction.rollback(tree, chosen.id)
    console.show(PatchResult(host, changes=(change,)), format)
    if format is Format.TEXT:
        print("restart the service to run it")
