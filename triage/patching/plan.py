"""What a patch would do to a tree. Pure: reads modules from the tree, changes nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from triage.evidence.model import EMPTY, Unanswered
from triage.patching import requirements
from triage.patching.ledger import LedgerView, Standing
from triage.patching.model import Check, FileEdit, Plan, PlanState, Site, SourceFile, SourceTree
from triage.patching.schema import Edit, Patch
from triage.patching.source import Unparsable, parse_ast

NO_CHANGES = LedgerView()


def plan_patch(
    patch: Patch, tree: SourceTree, context: Mapping[str, str] = EMPTY, ledger: LedgerView = NO_CHANGES
) -> Plan:
    """The patch's state on a tree, why, and the edits when it is applicable.

    `context` is what evidence tells of the deployment and a requirement asks for by name, such as
    `pool_class`. `ledger` is what was changed on the host before.
    """
    try:
        files = _read(patch, tree)
        if not files:
            return _without_files(patch, tree)
        by_us = _on_record(patch, files, ledger)
        if by_us is not None:
            return by_us
        return _plan(patch, tree, context, files)
    except (Unanswered, Unparsable) as reason:
        return Plan(patch.id, PlanState.UNREADABLE, str(reason))


@dataclass
class _Work:
    """What the edits of a patch find. `counts` holds how many sites and how many fixes each of them did."""

    sites: list[Site] = field(default_factory=list)
    fixed: list[Site] = field(default_factory=list)
    strange: list[tuple[str, Site]] = field(default_factory=list)
    counts: list[tuple[Edit, int, int]] = field(default_factory=list)
    elsewhere: list[tuple[str, Site]] = field(default_factory=list)  # outside of where an edit must stand
    firm: dict[str, bytes] = field(default_factory=dict)  # what edits that are no alternatives made of a file
    edits: dict[str, FileEdit] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Is every edit done, of alternatives one?"""
        alternatives = [done for edit, _, done in self.counts if edit.alternative]
        others = [done or edit.optional for edit, _, done in self.counts if not edit.alternative]
        return all(others) and (any(alternatives) or not alternatives)

    @property
    def as_known(self) -> bool:
        """Does every edit find the sites that it knows and no fix, of alternatives exactly one?"""
        exact = [
            (edit, wanted == edit.sites or (edit.optional and not wanted)) for edit, wanted, _ in self.counts
        ]
        alternatives = [edit for edit, _ in exact if edit.alternative]
        found = [edit for edit, right in exact if edit.alternative and right]
        stray = any(wanted for edit, wanted, _ in self.counts if edit.alternative and edit not in found)
        return (
            not self.fixed
            and all(right for edit, right in exact if not edit.alternative)
            and len(found) == bool(alternatives)
            and not stray
        )


def _plan(
    patch: Patch, tree: SourceTree, context: Mapping[str, str], files: Mapping[str, SourceFile]
) -> Plan:
    work = _look_everywhere(patch, files)
    sites, fixed = tuple(work.sites), tuple(work.fixed)
    claimed = {(site.path, site.line) for site in work.sites + work.fixed}
    work.strange += [item for item in work.elsewhere if (item[1].path, item[1].line) not in claimed]
    if work.strange:
        reason = "; ".join(dict.fromkeys(why for why, _ in work.strange))
        return Plan(patch.id, PlanState.AMBIGUOUS, reason, tuple(site for _, site in work.strange) + sites)
    if not sites and not fixed:
        return Plan(patch.id, PlanState.NOT_AFFECTED, "neither the defect nor the fix is in " + _named(files))
    if not sites and work.done:
        return Plan(patch.id, PlanState.FIXED_UPSTREAM, "the fix is in the source, and not by us", fixed)
    if not work.as_known:
        counts = "; ".join(
            f"{_times(wanted)} `{edit.find}` and {_times(done)} its fix, {edit.sites} known"
            for edit, wanted, done in work.counts
        )
        return Plan(patch.id, PlanState.AMBIGUOUS, counts, sites + fixed)
    return _required(patch, tree, context, sites, tuple(work.edits.values()))


def _required(
    patch: Patch,
    tree: SourceTree,
    context: Mapping[str, str],
    sites: tuple[Site, ...],
    edits: tuple[FileEdit, ...],
) -> Plan:
    checks: list[Check] = []
    failed: list[str] = []
    for requirement in patch.requires:
        found = requirements.check(requirement, tree, context)
        checks += found
        wrong = [check.summary for check in found if check.holds is False]
        if wrong:
            more = f" (and {len(wrong) - 2} more)" if len(wrong) > 2 else ""
            failed.append(f"{requirement.says}: {', '.join(wrong[:2])}{more}")
    if failed:
        return Plan(patch.id, PlanState.BLOCKED, "; ".join(failed), sites, tuple(checks))
    open_ = [check.summary for check in checks if check.holds is None]
    reason = "the defect is there, and the fix is not"
    if open_:
        reason += f"; open: {', '.join(open_)}"
    return Plan(patch.id, PlanState.APPLICABLE, reason, sites, tuple(checks), edits)


def _look_everywhere(patch: Patch, files: Mapping[str, SourceFile]) -> _Work:
    work = _Work()
    for edit in patch.edits:
        sites = len(work.sites)
        done = _look(edit, files, work)
        work.counts.append((edit, len(work.sites) - sites, done))
    return work


def _look(edit: Edit, files: Mapping[str, SourceFile], work: _Work) -> int:
    """Add to the work what one edit finds; give how often its fix is there."""
    from triage.patching.edits import look

    done = 0
    for module in edit.modules:
        file = files.get(module)
        if file is None:
            continue
        earlier = work.edits.get(file.path)
        data = earlier.after if earlier else file.data
        if edit.alternative:  # each of them is held against the same text
            data = work.firm.get(file.path, file.data)
        try:
            found = look(edit, file.path, data)
            if found.new is not None:
                parse_ast(found.new)
        except Unparsable as reason:
            raise Unparsable(f"{file.path}: {reason}") from None
        # Lines are those of the file as it is, whatever an earlier edit of the patch has put before them.
        first = look(edit, file.path, file.data) if data is not file.data else found
        work.sites += first.sites if len(first.sites) == len(found.sites) else found.sites
        work.fixed += () if edit.common else found.fixed
        done += len(found.fixed)
        outside = () if edit.common else found.outside
        work.elsewhere += [(f"`{edit.find}` stands outside {edit.inside}", site) for site in outside]
        work.strange += [("a shape that the patch cannot rewrite", site) for site in found.suspect]
        if found.new is not None:
            work.edits[file.path] = FileEdit(module, file.path, file.data, found.new)
            if not edit.alternative:
                work.firm[file.path] = found.new
    return done


def _read(patch: Patch, tree: SourceTree) -> dict[str, SourceFile]:
    modules = dict.fromkeys(module for edit in patch.edits for module in edit.modules)
    return {module: file for module in modules if (file := tree.read(module)) is not None}


def _without_files(patch: Patch, tree: SourceTree) -> Plan:
    if tree.read(patch.package) is None:
        reason = f"there is no package {patch.package} in this tree"
        return Plan(patch.id, PlanState.NOT_INSTALLED, reason)
    modules = ", ".join(module for edit in patch.edits for module in edit.modules)
    return Plan(patch.id, PlanState.NOT_AFFECTED, f"this version has no {modules}")


def _on_record(patch: Patch, files: Mapping[str, SourceFile], ledger: LedgerView) -> Plan | None:
    """What the ledger decides: it does, unless every trace of the change is gone."""
    standings = [
        (file, ledger.standing(patch.id, file.path, hashlib.sha256(file.data).hexdigest()))
        for file in files.values()
    ]
    made = [(file, standing) for file, standing in standings if standing.kind in ("applied", "drifted")]
    if not made:
        return None
    work = _look_everywhere(patch, files)
    sites = tuple(work.fixed)
    when = _when(made[0][1])
    drifted = [file.path for file, standing in made if standing.kind == "drifted"]
    if drifted:
        there = "the fix's shape is still there" if sites else "the fix's shape is gone"
        reason = f"applied {when}; {', '.join(drifted)} changed since, {there}"
        return Plan(patch.id, PlanState.DRIFTED, reason, sites)
    if work.sites or not sites:
        reason = f"on record as applied {when}, but the source does not have the fix's shape"
        return Plan(patch.id, PlanState.AMBIGUOUS, reason, tuple(work.sites) + sites)
    return Plan(patch.id, PlanState.APPLIED, f"applied {when}", sites)


def _when(standing: Standing) -> str:
    change = standing.change
    if change is None:
        return ""
    cut = ", by a run that was cut short" if change.interrupted else ""
    return f"{change.at} by {change.by}{cut}"


def _named(files: Mapping[str, SourceFile]) -> str:
    return ", ".join(file.path for file in files.values())


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
