"""`triage patch HOST`: what a patch would change, and with --apply the change."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
    RulesOption,
    UnitOption,
)
from triage.cli.patch.options import (
    GivenOption,
    LedgerOption,
    PatchesOption,
    PythonOption,
    YesOption,
    nobody_agreed,
)
from triage.cli.places import directory_of, is_directory, may_run, named
from triage.cli.reach import Reach
from triage.common.commands import NextCommand, command
from triage.common.errors import UsageError
from triage.workflows.knowledge import known_patches, rule_directories

if TYPE_CHECKING:
    from triage.patching.ledger import PatchChange
    from triage.patching.target import PatchTarget, Plans


class ExportKind(str, Enum):
    DIFF = "diff"
    DOCKERFILE = "dockerfile"
    ANSIBLE = "ansible"


# What the next command takes over from this one.
_KEPT = (
    "unit",
    "all",
    "package_root",
    "python",
    "ledger",
    "given",
    "patches",
    "rules",
    *next_command.CONNECTION,
)


@with_groups
def show(
    host: HostArgument,
    unit: UnitOption = "",
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help="A patch; without it, those that the diagnosis proposes.", show_default=False
        ),
    ] = None,
    all: Annotated[
        bool, typer.Option("--all", help="Those for every fault that the log holds, not only for the last.")
    ] = False,
    package_root: Annotated[
        str, typer.Option(help="The package's directory on the host, `.../site-packages/PACKAGE`.")
    ] = "",
    python: PythonOption = "",
    ledger: LedgerOption = "",
    given: GivenOption = None,
    patches: PatchesOption = None,
    rules: RulesOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="Make the change.")] = False,
    export: Annotated[
        ExportKind | None,
        typer.Option(
            help="Print the change, made or not, as text that makes it elsewhere.", show_default=False
        ),
    ] = None,
    yes: YesOption = False,
    format: FormatOption = Format.TEXT,
    *,
    reach: Reach,
) -> None:
    """Show what patches would change on HOST, or in a directory here (./x), and with --apply change it.

    Several are one change: each is planned on the result of those before it, and all are made or none.
    Exit code 4 when it cannot be made, or nobody agreed.
    """
    from triage.patching.target import apply_all, survey
    from triage.workflows.patch import PatchResult, facts_of, in_directory, refuse_what_is_not_fixed
    from triage.workflows.patch_target import find_target

    for one, other in (("--all", all and id and "--id"), ("--export", export and apply and "--apply")):
        if other:
            raise UsageError(
                "patching", host, f"{one} and {other} exclude each other", "leave one of them out"
            )
    known, facts = known_patches(patches), facts_of(given or ())
    place = host
    compiler = ""
    if is_directory(host):
        place = "local"
        package_root, compiler = in_directory(host, directory_of(host).absolute(), id or ())
        if apply and not python:
            compiler = _compiler(compiler)
        python, compiler = python or sys.executable, python or compiler
    with named(host):
        reached = reach.host(place)
    unit = unit or reached.settings.unit
    with named(host), reach.connection(reached) as connection:
        with console.working(f"reading {host}"):
            target = find_target(
                connection,
                known,
                id or (),
                unit,
                package_root,
                python,
                ledger,
                all,
                rule_directories(rules),
                changing=apply,
                compiler=compiler,
            )
            target = replace(target, context={**target.context, **facts})
            plans = survey(target, settle=apply)
        if export is not None:
            _export(target, plans, export)
            return
        if format is Format.TEXT:
            console.print_lines(PatchResult(host, plans))
            _say_if_nothing(plans, host, all)
        changes: tuple[PatchChange, ...] = ()
        if apply:
            _agree(plans, host, yes)
            changes = tuple(apply_all(target, plans))
        if format is Format.JSON:
            after = survey(target) if apply else plans
            console.show(PatchResult(host, after, changes, target.package_root), format)
        elif apply:
            console.print_lines(PatchResult(host, changes=changes))
            _print_hint(host, plans, changes, target)
        elif any(plan.edits for _, plan in plans):
            ids = () if all else (patch.id for patch, plan in plans if plan.edits)
            print(f"nothing was changed; next: {_command(host, ids, target)}")
    if apply:
        next = next_command.reaching(command("scan" if is_directory(host) else "diagnose", host))
        refuse_what_is_not_fixed(host, plans, changes, next)


def _export(target: PatchTarget, plans: Plans, kind: ExportKind) -> None:
    from triage.patching.export import exported, render

    text = render(exported(target.tree, plans), kind.value)
    if sys.stdout.isatty():
        from triage.report.safe import safe

        print(safe(text.decode("utf-8", "backslashreplace")), end="")
    else:
        sys.stdout.buffer.write(text)


def _compiler(own: str) -> str:
    """The tree's own interpreter, which is run to compile what is applied, where nobody but us and root can
    change it; else "" for the one that runs this, which may take what an older one does not."""
    if own and may_run(Path(own)):
        print(f"{own} is run to compile the change", file=sys.stderr)
        return own
    version = ".".join(map(str, sys.version_info[:2]))
    why = f"{own} is not run, as other accounts can change it" if own else "there is no interpreter in it"
    print(f"{why}: whether the change compiles is tried with Python {version} of triage", file=sys.stderr)
    return ""


def _agree(plans: Plans, host: str, yes: bool) -> None:
    """One question for all that would be changed. Raises RefusedError."""
    names = ", ".join(patch.id for patch, plan in plans if plan.edits)
    count = sum(bool(plan.edits) for _, plan in plans)
    what = "this change" if count == 1 else f"these {count} changes"
    if names and not console.agreed(f"Make {what} ({names})?", yes):
        raise nobody_agreed("applying", f"{names} on {host}")


def _say_if_nothing(plans: Plans, host: str, every: bool) -> None:
    if plans:
        return
    what = "any fault in the log of" if every else "what ran last on"
    print(f"no patch is proposed for {what} {host}, and none is applied")


def _print_hint(host: str, plans: Plans, changes: Sequence[PatchChange], target: PatchTarget) -> None:
    """What comes next."""
    from triage.patching.model import PlanState

    unit = ("--unit", target.unit) if target.unit else ()
    verify = next_command.reaching(command("verify", host, *unit))
    restart = f"restart the service to run it: {verify}"
    if is_directory(host):
        host, restart = "local", "restart what runs from it"
    status = next_command.reaching(command("patch status", host))
    fixed = [patch.id for patch, plan in plans if plan.state is PlanState.FIXED_UPSTREAM]
    if any(change.new for change in changes):
        print(restart)
    elif changes:
        print(f"nothing was changed: it was applied before; whether it runs: {status}")
    elif fixed:
        print(f"nothing was changed: the source has the fix of {', '.join(fixed)} already")
        print(f"a service that was started before it came runs the old source; {restart}")


def _command(host: str, ids: Iterable[str], target: PatchTarget) -> NextCommand:
    """What makes the change that was shown, or what makes it in the image, ready to paste."""
    from triage.workflows.patch_target import TO_AN_IMAGE

    chosen = [word for id in ids for word in ("--id", id)]
    how = TO_AN_IMAGE if target.container else ("--apply",)
    return command("patch", host, *next_command.given(*_KEPT), *chosen, *how)
