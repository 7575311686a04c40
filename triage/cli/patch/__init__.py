"""`triage patch`: the exact change to the installed source, made as a transaction, and taken back."""

from __future__ import annotations

import typer
from typer.core import TyperGroup

from triage.cli.patch import rebase, rollback, show, status

SHOW = "show"


class PatchGroup(TyperGroup):
    """`triage patch HOST` is `triage patch show HOST`."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=PatchGroup,
    no_args_is_help=True,
    help="Show the change to the installed source that fixes what failed on HOST (`triage patch HOST`), "
    "make it (`--apply`), hand it on (`--export`), and take it back. "
    "`triage patch HOST --help` has the options.",
)
app.command(SHOW)(show.show)
app.command()(status.status)
app.command()(rollback.rollback)
app.command()(rebase.rebase)
