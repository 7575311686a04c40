"""`triage patch`: the exact change to the installed source, made as a transaction, and taken back."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from triage.cli import console
from triage.cli.options import (
    BecomeOption,
    Format,
    FormatOption,
    HostArgument,
    HostKey,
    HostKeyOption,
    RulesOption,
    SshConfigOption,
    UnitOption,
    connected,
    knowledge,
)
from triage.errors import RefusedError, UnreachableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.text import Text

    from triage.hosts.connection import Connection
    from triage.patching.ledger import Change
    from triage.patching.model import Plan
    from triage.patching.schema import Patch
    from triage.patching.transaction import HostTree
    from triage.pipeline import Report

SHOW = "show"


class Group(TyperGroup):
    """`triage patch HOST` is `triage patch show HOST`."""

    def parse_args(self, ctx, args):  # type: ignore[no-untyped-def]
        if args and args[0] not in self.commands and args[0] != "--help":
            args = [SHOW, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Show the change to the installed source that mends what failed on HOST (`triage patch HOST`), "
    "make it (`--apply`), and take it back. `triage patch HOST --help` has the options.",
)

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


@app.command(SHOW)
def show(
    host: HostArgument,
    unit: UnitOption = "",
    id: Annotated[
        list[str] | None,
        typer.Option(
            "--id", help="A patch; without it, those that the diagnosis proposes.", show_default=False
        ),
    ] = None,
    package_root: Annotated[
        str, typer.Option(help="The package's directory on the host, `.../site-packages/sglang`.")
    ] = "",
    python: PythonOption = "",
    ledger: LedgerOption = "",
    given: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="What is known of the deployment: pool_class=MLATokenToKVPool."
        ),
    ] = None,
    patches: Annotated[
        list[Path] | None, typer.Option(help="A directory of further patches.", show_default=False)
    ] = None,
    rules: RulesOption = None,
    apply: Annotated[bool, typer.Option("--apply", help="Make the change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree beforehand.")] = False,
    format: FormatOption = Format.TEXT,
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """Show what a patch would change on HOST, or in a directory here, and with --apply change it.

    Exit code 4 when it cannot be applied, or nobody agreed.
    """
    from triage.config import load_config, with_configured
    from triage.patching.load import load_patches

    known = load_patches(with_configured(load_config().patches, patches))
    facts = _facts(given or ())
    if Path(host).is_dir():
        host, package_root = "local", _package_in(host, id or ())
    with connected(host, ssh_config, host_key, become) as connection:
        with console.working(f"reading {host}"):
            target = find_target(connection, known, id or (), unit, package_root, python, ledger, rules)
            target = replace(target, context={**target.context, **facts})
            plans = survey(target)
        if format is Format.TEXT:
            _print_plans(target, plans)
        changes = apply_all(target, plans, lambda plan: _consent(plan, yes)) if apply else ()
        if format is Format.JSON:
            plans = survey(target) if apply else plans
            _print_json(host, plans, changes, target.package_root)
        elif apply:
            _print_changes(changes)
            _print_hint(host, unit, changes)
        elif any(plan.edits for _, plan in plans):
            ids = [patch.id for patch, plan in plans if plan.edits]
            print(f"nothing was changed; next: {_command(host, unit, package_root, ids)}")
    if apply:
        _refuse_what_is_not_mended(host, plans, changes)


@app.command()
def status(
    host: HostArgument,
    python: PythonOption = "",
    ledger: LedgerOption = "",
    format: FormatOption = Format.TEXT,
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """What was changed on HOST, and whether it still is."""
    from triage.patching import transaction

    with connected(host, ssh_config, host_key, become) as connection:
        changes = transaction.status(_bare_tree(connection, python, ledger))
    if format is Format.JSON:
        _print_json(host, (), changes)
    elif changes:
        _print_changes(changes)
    else:
        print(f"nothing was changed on {host}")


@app.command()
def rollback(
    host: HostArgument,
    id: ChangeOption = "",
    python: PythonOption = "",
    ledger: LedgerOption = "",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree beforehand.")] = False,
    format: FormatOption = Format.TEXT,
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """Put the exact bytes back from before a change on HOST."""
    from triage.patching import transaction

    with connected(host, ssh_config, host_key, become) as connection:
        tree = _bare_tree(connection, python, ledger)
        chosen = choose(transaction.status(tree), id, host)
        if not console.agreed(f"Take back {chosen.id} on {host}?", yes):
            raise _nobody_agreed("rolling back", f"{chosen.id} on {host}")
        change = transaction.rollback(tree, chosen.id)
    if format is Format.JSON:
        _print_json(host, (), (change,))
    else:
        _print_changes((change,))
        print("restart the service to run it")


@app.command()
def export(
    host: HostArgument,
    id: ChangeOption = "",
    python: PythonOption = "",
    ledger: LedgerOption = "",
    ssh_config: SshConfigOption = None,
    host_key: HostKeyOption = HostKey.STRICT,
    become: BecomeOption = False,
) -> None:
    """Print a change on HOST as a unified diff: `patch -p1 -d /` applies it elsewhere."""
    from triage.patching import transaction

    with connected(host, ssh_config, host_key, become) as connection:
        tree = _bare_tree(connection, python, ledger)
        edits = transaction.export(tree, choose(transaction.status(tree), id, host).id)
    if sys.stdout.isatty():
        from triage.report.patching import diff_lines

        _print_lines(line for edit in edits for line in diff_lines(edit.diff()))
    else:
        sys.stdout.buffer.write(b"".join(edit.unified() for edit in edits))


@dataclass(frozen=True)
class Target:
    """Which patches, on which tree of a host, and what is known of the deployment there."""

    tree: HostTree
    package_root: str
    patches: tuple[Patch, ...]
    context: Mapping[str, str]


def find_target(
    connection: Connection,
    known: Sequence[Patch],
    ids: Sequence[str] = (),
    unit: str = "",
    package_root: str = "",
    python: str = "",
    ledger: str = "",
    rules: Iterable[Path] | None = None,
) -> Target:
    """The tree that serves on a host, and the patches that are asked for or proposed for it.

    With `package_root` no service is looked for. Raises TriageError.
    """
    from triage.patching.load import find_patch
    from triage.patching.transaction import HostTree

    context: Mapping[str, str] = {}
    wanted = tuple(find_patch(id, known) for id in ids)
    if not package_root:
        report = _diagnosis(connection, unit, rules)
        deployment, context = report.deployment, _context(report)
        package_root, python = deployment.package_root, python or deployment.python
        if not package_root:
            raise UnreachableError(
                "looking for the source of",
                f"{deployment.name} on {connection.name}",
                "the directory of the engine's package is not known",
                f"triage patch {connection.name} --package-root .../site-packages/sglang --id PATCH",
            )
        wanted = wanted or _proposed(report, known)
    root = package_root.rstrip("/").rpartition("/")[0] or "/"
    tree = HostTree(connection, [root], python, ledger)
    if not wanted:
        wanted = _on_record(tree, known, root)
    return Target(tree, package_root, wanted, context)


def survey(target: Target) -> tuple[tuple[Patch, Plan], ...]:
    """The plan of every patch, freshly read from the host."""
    tree = target.tree.fresh()
    ledger = tree.ledger()
    tree.prefetch(module for patch in target.patches for module in (patch.package, *patch.modules))
    return tuple((patch, tree.plan(patch, target.context, ledger)) for patch in target.patches)


def apply_all(
    target: Target, plans: Iterable[tuple[Patch, Plan]], consent: Callable[[Plan], bool]
) -> tuple[Change, ...]:
    """Apply every plan that can be, one transaction each. Raises RefusedError when nobody agrees."""
    from triage.patching import transaction
    from triage.patching.model import State

    changes: list[Change] = []
    for patch, plan in plans:
        if plan.state not in (State.APPLICABLE, State.APPLIED):
            continue
        if plan.state is State.APPLICABLE and not consent(plan):
            raise _nobody_agreed("applying", f"{patch.id} on {target.tree.host}")
        # An earlier patch may have changed the same file: plan on what is there now.
        fresh = target.tree.fresh()
        now = fresh.plan(patch, target.context) if changes else plan
        changes.append(transaction.apply(fresh, patch, now, target.context))
    return tuple(changes)


def choose(changes: Sequence[Change], name: str, host: str) -> Change:
    """The applied change that an id of a change or a patch means. Raises UsageError."""
    applied = [change for change in changes if change.state == "applied" or change.interrupted]
    found = [change for change in changes if change.id == name] or [
        change for change in applied if not name or change.patch == name
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(change.id for change in (found or applied))
    happened = f"it could be any of {names}" if found else f"no such change is applied on {host}"
    raise UsageError("looking for change", name or "(none named)", happened, f"triage patch status {host}")


def _diagnosis(connection: Connection, unit: str, rules: Iterable[Path] | None) -> Report:
    from triage import pipeline
    from triage.evidence.live import LiveEvidence

    return pipeline.diagnose(LiveEvidence(connection), knowledge(rules), unit)


def _proposed(report: Report, known: Sequence[Patch]) -> tuple[Patch, ...]:
    """The patches among the remedies for what failed last."""
    from triage.patching.load import find_patch

    ids = [
        remedy.id
        for finding in report.incidents[-1:]
        for diagnosis in finding.diagnoses
        if diagnosis.outcome != "refuted"
        for remedy in diagnosis.remedies
        if remedy.kind == "patch"
    ]
    return tuple(find_patch(id, known) for id in dict.fromkeys(ids))


def _context(report: Report) -> Mapping[str, str]:
    """What the log of the last run tells that a patch's preconditions ask for."""
    for finding in report.incidents[-1:]:
        if "kv_pool" in finding.incident.facts:
            return {"pool_class": finding.incident.facts["kv_pool"]}
    return {}


def _on_record(tree: HostTree, known: Sequence[Patch], root: str) -> tuple[Patch, ...]:
    """The patches that were applied to the tree."""
    made = {
        change.patch
        for change in tree.ledger().changes
        if change.state == "applied" and any(file.path.startswith(f"{root}/") for file in change.files)
    }
    return tuple(patch for patch in known if patch.id in made)


def _bare_tree(connection: Connection, python: str, ledger: str) -> HostTree:
    """A host whose ledger is asked for; any interpreter will do."""
    from triage.patching.transaction import HostTree

    return HostTree(connection, (), python, ledger)


def _package_in(directory: str, ids: Sequence[str]) -> str:
    """The engine's package in a virtual environment, site-packages or checkout. Raises UsageError."""
    from triage.scan.read import find_root

    if not ids:
        happened = "nothing ran there that could be diagnosed, so name a patch with --id"
        raise UsageError("patching", directory, happened, shlex.join(["triage", "scan", directory]))
    root, package = find_root(Path(directory).absolute())
    return str(root / package)


def _facts(given: Iterable[str]) -> dict[str, str]:
    facts = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError("reading", f"--given {item}", "it is not NAME=VALUE", "--given pool_class=NAME")
        facts[name] = value
    return facts


def _consent(plan: Plan, yes: bool) -> bool:
    return console.agreed(f"Make this change ({plan.patch})?", yes)


def _nobody_agreed(doing: str, to: str) -> RefusedError:
    return RefusedError(doing, to, "nobody agreed to it", "answer yes, or agree beforehand with --yes")


def _refuse_what_is_not_mended(
    host: str, plans: Iterable[tuple[Patch, Plan]], changes: Iterable[Change]
) -> None:
    """Nothing that was left undone is called done."""
    from triage.patching.model import State

    done = {change.patch for change in changes}
    left = [
        f"{patch.id} is {plan.state.value}: {plan.reason}"
        for patch, plan in plans
        if patch.id not in done and plan.state not in (State.FIXED_UPSTREAM, State.APPLIED)
    ]
    if left:
        raise RefusedError("applying patches on", host, "; ".join(left), f"triage diagnose {host}")


def _print_plans(target: Target, plans: Sequence[tuple[Patch, Plan]]) -> None:
    from triage.report.patching import plan_lines

    if not plans:
        print(f"no patch is proposed for what ran last on {target.tree.host}, and none is applied")
    for patch, plan in plans:
        _print_lines(plan_lines(patch, plan))


def _print_changes(changes: Iterable[Change]) -> None:
    from triage.report.patching import change_lines

    for change in changes:
        _print_lines(change_lines(change))


def _print_hint(host: str, unit: str, changes: Sequence[Change]) -> None:
    if any(change.new for change in changes):
        print(f"restart the service to run it: triage verify {host}{f' --unit {unit}' if unit else ''}")
    elif changes:
        print("nothing was changed: it was applied before")


def _command(host: str, unit: str, package_root: str, ids: Iterable[str]) -> str:
    """What makes the change that was shown, ready to paste."""
    options = [("--unit", unit), ("--package-root", package_root), *(("--id", id) for id in ids)]
    words = [word for name, value in options if value for word in (name, value)]
    return shlex.join(["triage", "patch", host, *words, "--apply"])


def _print_json(
    host: str, plans: Iterable[tuple[Patch, Plan]], changes: Iterable[Change], package_root: str = ""
) -> None:
    from triage.report import json
    from triage.report.patching import document

    print(json.dumps(document(host, plans, changes, package_root)))


def _print_lines(lines: Iterable[Text]) -> None:
    screen = console.stdout()
    for line in lines:
        screen.print(line, soft_wrap=True)
