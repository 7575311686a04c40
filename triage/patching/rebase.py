"""Changes on record that a new installation took away: whether they are still needed, and fit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from triage.common.errors import TriageError
from triage.evidence.model import EMPTY
from triage.patching import transaction
from triage.patching.change_status import Outlook, look
from triage.patching.ledger import LedgerView, PatchChange
from triage.patching.model import FileEdit, Plan, PlanState
from triage.patching.plan import plan_patch
from triage.patching.schema import Patch
from triage.patching.target import PatchTarget, PlannedTree, apply_all, plan_all
from triage.patching.transaction import HostTree

Verdict = Literal["in place", "applies again", "needs nothing", "conflict"]
_NOTHING = (PlanState.FIXED_UPSTREAM, PlanState.NOT_AFFECTED, PlanState.NOT_INSTALLED)


@dataclass(frozen=True)
class Rebased:
    """What becomes of one change. `plan` is on what is installed now, with what is known as `context`.

    `diff` explains a conflict: what another hand made of the file, else the change as it was made.
    """

    outlook: Outlook
    verdict: Verdict
    patch: Patch | None = None
    plan: Plan | None = None
    context: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    diff: str = ""

    @property
    def change(self) -> PatchChange:
        return self.outlook.change

    @property
    def closes(self) -> bool:
        """Is its record to be closed, as it is in none of its files any more?"""
        there = any(file.now in ("", file.after) for file in self.change.files)
        if self.verdict == "in place" or (there and not self.change.superseded):
            return False
        return self.verdict != "conflict" or self.outlook.cause == "installed"


def rebase(tree: HostTree, known: Iterable[Patch], context: Mapping[str, str] = EMPTY) -> tuple[Rebased, ...]:
    """What becomes of every applied change, oldest first. Changes nothing. Raises TriageError.

    `context` comes before what was known when a change was made.
    """
    patches = {patch.id: patch for patch in known}
    changes = transaction.status(tree)
    latest = {(item.patch, item.root): item.id for item in changes if item.state == "applied"}
    looked = [item for item in look(tree.agent, changes, ()) if item.change.id in latest.values()]
    lost = [item for item in looked if item.cause]
    ledger = LedgerView(tuple(item for item in changes if item.id not in [each.change.id for each in lost]))
    found = {item.change.id: Rebased(item, "in place") for item in looked}
    for root in dict.fromkeys(item.change.root for item in lost):
        here = _at(tree, root)
        for item in _planned(
            [item for item in lost if item.change.root == root], patches, here, context, ledger
        ):
            found[item.change.id] = item
    return tuple(found.values())


def apply_again(tree: HostTree, found: Sequence[Rebased]) -> tuple[PatchChange, ...]:
    """Close the records of what is lost, and apply what applies again. Raises TriageError."""
    for item in found:
        if item.closes:
            then = f", where it {item.verdict}" if item.verdict != "conflict" else ""
            transaction.retire(tree, [item.change.id], item.outlook.happened + then)
    made: list[PatchChange] = []
    for item in found:
        if item.verdict == "applies again" and item.patch and item.plan:
            target = PatchTarget(_at(tree, item.change.root), "", (), item.context)
            made += apply_all(target, [(item.patch, item.plan)])
    return tuple(made)


def _planned(
    lost: Sequence[Outlook],
    patches: Mapping[str, Patch],
    tree: HostTree,
    context: Mapping[str, str],
    ledger: LedgerView,
) -> Iterator[Rebased]:
    """Changes of one root, each planned on the result of those before it."""
    mine = [item for item in lost if item.change.patch in patches]
    made_with = {name: value for item in mine for name, value in item.change.context.items()}
    context = {**made_with, **context}
    plans = plan_all([patches[item.change.patch] for item in mine], tree, context, ledger)
    yield from (Rebased(item, "conflict") for item in lost if item not in mine)
    for item, (patch, plan) in zip(mine, plans, strict=True):
        verdict = _verdict(item, plan)
        diff = _diff(item, patch, tree) if verdict == "conflict" else ""
        yield Rebased(item, verdict, patch, plan, context, diff)


def _verdict(outlook: Outlook, plan: Plan) -> Verdict:
    if plan.ready:
        return "applies again"
    if outlook.cause in ("installed", "gone") and plan.state in _NOTHING:
        return "needs nothing"
    if plan.state is PlanState.FIXED_UPSTREAM:  # another hand edited something else in the file
        return "in place"
    return "conflict"


def _diff(outlook: Outlook, patch: Patch, tree: HostTree) -> str:
    """What another hand made of the file that the change had left, else what the change had made."""
    try:
        change, files = transaction.shown(tree, outlook.change.id)
    except TriageError:
        return ""
    then = PlannedTree(tree)
    then.make(FileEdit(file.module, file.path, file.after, file.before) for file in files)
    alone = patch.model_copy(update={"requires": ()})  # what it requires may not hold any more
    made = {edit.path: edit for edit in plan_patch(alone, then).edits}
    if any(file.path not in made or _digest(made[file.path].after) != file.after for file in change.files):
        return ""
    if outlook.cause == "edited":
        return "".join(replace(file, before=made[file.path].after).diff() for file in files)
    return "".join(edit.diff() for edit in made.values())


def _at(tree: HostTree, root: str) -> HostTree:
    return HostTree(tree.agent.connection, [root], tree.agent.python, tree.agent.ledger)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
