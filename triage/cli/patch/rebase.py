"""`triage patch rebase`: after an upgrade, what becomes of the changes that were made before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
)
from triage.cli.patch.options import (
    GivenOption,
    LedgerOption,
    PatchesOption,
    PythonOption,
    YesOption,
    bare_tree,
    nobody_agreed,
)
from triage.cli.reach import Reach
from triage.common.commands import command
from triage.common.wording import counted
from triage.workflows.knowledge import known_patches

if TYPE_CHECKING:
    from triage.patching.rebase import Rebased

_KEPT = ("python", "ledger", "given", "patches", *next_command.CONNECTION)


@with_groups
def rebase(
    host: HostArgument,
    python: PythonOption = "",
    ledger: LedgerOption = "",
    given: GivenOption = None,
    patches: PatchesOption = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Apply what applies again, and close the records of what is gone.")
    ] = False,
    yes: YesOption = False,
    format: FormatOption = Format.TEXT,
    *,
    reach: Reach,
) -> None:
    """Hold the changes on record on HOST against what is installed now: needless, to make again, in conflict.

    Exit code 4 when --apply leaves a conflict, or nobody agreed.
    """
    from triage.patching.rebase import apply_again
    from triage.patching.rebase import rebase as look_again
    from triage.workflows.patch import PatchResult, RebaseResult, facts_of, refuse_conflicts

    known, facts = known_patches(patches), facts_of(given or ())
    with reach.connection(reach.host(host)) as connection:
        tree = bare_tree(connection, python, ledger)
        found = look_again(tree, known, facts)
        if format is Format.TEXT:
            console.print_lines(RebaseResult(host, tuple(found)))
        open_ = [item for item in found if item.closes or item.verdict == "applies again"]
        if apply and open_:
            _agree(open_, host, yes)
        changes = apply_again(tree, found) if apply else ()
    if format is Format.JSON:
        console.show(RebaseResult(host, tuple(found), tuple(changes)), format)
    elif apply:
        console.print_lines(PatchResult(host, changes=tuple(changes)))
        print("restart the service to run it" if changes else "nothing was changed in the source")
    elif open_:
        next = command("patch rebase", host, *next_command.given(*_KEPT), "--apply")
        print(f"nothing was changed; next: {next}")
    elif not found:
        print(f"nothing is applied on {host}")
    if apply:
        refuse_conflicts(host, found, next_command.reaching(command("patch status", host)))


def _agree(items: Sequence[Rebased], host: str, yes: bool) -> None:
    names = ", ".join(item.change.patch for item in items if item.verdict == "applies again")
    question = (
        f"Apply again {names}?"
        if names
        else f"Close {counted(len(items), 'record')} of changes that are gone?"
    )
    if not console.agreed(question, yes):
        raise nobody_agreed("rebasing", f"{names or 'the record'} on {host}")
