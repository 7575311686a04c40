"""Several patches on one tree: planned one on the result of the other, and applied together or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from triage.common.errors import TriageError
from triage.evidence.model import EMPTY
from triage.hosts.connection import Connection
from triage.patching import transaction
from triage.patching.ledger import LedgerView, PatchChange
from triage.patching.model import FileEdit, Plan, PlanState, SourceFile, SourceTree
from triage.patching.observation import observe
from triage.patching.plan import plan_patch
from triage.patching.schema import Patch
from triage.patching.transaction import HostTree

Plans = tuple[tuple[Patch, Plan], ...]


@dataclass(frozen=True)
class PatchTarget:
    """Which patches, on which tree of a host, and what is known of the deployment there.

    `package_root` is the directory of the engine's package, and `unit` what runs it; "" where no
    service was looked for. In a `container` nothing is to be changed.
    """

    tree: HostTree
    package_root: str
    patches: tuple[Patch, ...]
    context: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    unit: str = ""
    container: str = ""


def target_at(
    connection: Connection,
    package_root: str,
    known: Sequence[Patch],
    wanted: Sequence[Patch] = (),
    python: str = "",
    ledger: str = "",
    compiler: str = "",
) -> PatchTarget:
    """A package's directory on a host, and the patches that are asked for, or were applied to it before."""
    root = package_root.rstrip("/").rpartition("/")[0] or "/"
    tree = HostTree(connection, [root], python, ledger, compiler)
    return PatchTarget(tree, package_root, tuple(wanted) or on_record(tree, known))


def on_record(tree: HostTree, known: Iterable[Patch]) -> tuple[Patch, ...]:
    """The patches that were applied to a tree."""
    places = tuple(f"{root}/" for root in tree.roots)
    made = {
        change.patch
        for change in tree.ledger().changes
        if change.state == "applied" and any(file.path.startswith(places) for file in change.files)
    }
    return tuple(patch for patch in known if patch.id in made)


class PlannedTree:
    """A tree as it will be once some edits are made. A SourceTree."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._made: dict[str, bytes] = {}  # by path
        self._modules: set[str] = set()

    def make(self, edits: Iterable[FileEdit]) -> None:
        for edit in edits:
            self._made[edit.path] = edit.after
            self._modules.add(edit.module)

    def touches(self, modules: Iterable[str]) -> bool:
        """Was one of the modules edited?"""
        return not self._modules.isdisjoint(modules)

    def read(self, module: str) -> SourceFile | None:
        file = self._tree.read(module)
        if file is None or file.path not in self._made:
            return file
        return replace(file, data=self._made[file.path])


def survey(target: PatchTarget, settle: bool = False) -> Plans:
    """The plan of every patch, freshly read from the host, each on the result of those before it.

    With `settle`, what an interrupted run left is finished or taken back first.
    """
    tree = target.tree.fresh()
    if settle:
        transaction.settle(tree)
    ledger = tree.ledger()
    tree.prefetch(module for patch in target.patches for module in (patch.package, *patch.modules))
    return _with_notes(plan_all(target.patches, tree, target.context, ledger), tree, ledger)


def _with_notes(plans: Plans, tree: HostTree, ledger: LedgerView) -> Plans:
    """Say of files that are to be changed where they are not those that the package installed."""
    before: dict[str, str] = {}
    files = []
    for patch, plan in plans:
        for edit in plan.edits:
            before.setdefault(edit.path, hashlib.sha256(edit.before).hexdigest())
            files.append((edit.path, edit.module, patch.distribution))
    if not files:
        return plans
    seen = observe(tree.agent, files)

    def notes(patch: Patch, plan: Plan) -> tuple[str, ...]:
        return tuple(
            f"{edit.path} was changed by hand since {patch.distribution} was installed: its RECORD differs"
            for edit in plan.edits
            if seen.of(edit.path).recorded not in ("", ledger.pristine(edit.path, before[edit.path]))
        )

    return tuple((patch, replace(plan, notes=notes(patch, plan))) for patch, plan in plans)


def plan_all(
    patches: Iterable[Patch], tree: SourceTree, context: Mapping[str, str], ledger: LedgerView
) -> Plans:
    """The plans of patches that are to be applied in this order."""
    planned = PlannedTree(tree)
    found: list[tuple[Patch, Plan]] = []
    for patch in patches:
        plan = plan_patch(patch, planned, context, ledger)
        if plan.ready:
            planned.make(plan.edits)
            ledger = ledger.with_planned(patch.id, plan.edits)
        elif plan.state is not PlanState.APPLICABLE and planned.touches(patch.modules):
            plan = _or_conflict(plan, plan_patch(patch, tree, context, ledger), found)
        found.append((patch, plan))
    return tuple(found)


def apply_all(target: PatchTarget, plans: Iterable[tuple[Patch, Plan]]) -> tuple[PatchChange, ...]:
    """Apply every plan that can be, in order, one transaction each.

    Gives the changes, those that were there already among them (`new` tells). When one fails, those
    that this call made are taken back. Raises TriageError.
    """
    changes: list[PatchChange] = []
    for patch, plan in plans:
        if plan.state not in (PlanState.APPLICABLE, PlanState.APPLIED):
            continue
        try:
            changes.append(transaction.apply(target.tree.fresh(), patch, plan, target.context))
        except TriageError as error:
            _take_back(target.tree, [change for change in changes if change.new], error)
            raise
    return tuple(changes)


def _take_back(tree: HostTree, changes: Sequence[PatchChange], error: TriageError) -> None:
    """Roll back what was made before an error, and say so in it."""
    for change in reversed(changes):
        try:
            transaction.rollback(tree, change.id)
        except TriageError as second:
            error.happened += f"; {change.patch} stays applied ({second.happened})"
        else:
            error.happened += f"; {change.patch}, made just before, was taken back"


def _or_conflict(plan: Plan, alone: Plan, before: Iterable[tuple[Patch, Plan]]) -> Plan:
    """The plan, or where only the patches before it stand in its way, that they do."""
    if alone.state is not PlanState.APPLICABLE:
        return plan
    names = ", ".join(patch.id for patch, other in before if other.ready)
    reason = f"it conflicts with {names}, on whose result it is {plan.state.value}: {plan.reason}"
    return replace(plan, state=PlanState.AMBIGUOUS, reason=reason)
