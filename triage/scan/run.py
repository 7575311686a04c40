"""A scan: every patch's state, and every place of the class, over the cores of this machine."""

from __future__ import annotations

import concurrent.futures
import contextlib
import gc
import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from triage.evidence.model import Unanswered
from triage.patching.model import Plan, PlanState, Site, SourceFile, SourceTree
from triage.patching.plan import plan_patch
from triage.patching.source import Unparsable
from triage.patching.syntax import may_match
from triage.scan import shapes
from triage.scan.cache import Answer, CachedFindings
from triage.scan.model import ScanFinding, ScanResult
from triage.scan.read import Sources

if TYPE_CHECKING:
    from triage.patching.schema import Patch

_THERE = (PlanState.APPLICABLE, PlanState.AMBIGUOUS, PlanState.DRIFTED, PlanState.UNREADABLE)
SHARED_BYTES = 8 << 20  # of files to look at, two seconds of work, from which on other processes take a share


def scan(
    root: str,
    package: str,
    sources: Sources,
    tree: SourceTree,
    patches: Iterable[Patch],
    context: Mapping[str, str],
) -> ScanResult:
    """What is found in a package. A place that a patch covers is the patch's, not a finding of its own."""
    wanted = [patch for patch in patches if patch.package == package]
    with _looking(sources.files) as answers:
        plans = tuple((p, plan_patch(p, tree, context)) for p in wanted if _may_be_there(p, tree))
        findings, unread = _sorted_out(sources.files, answers())
    there = tuple((patch, plan) for patch, plan in plans if plan.state in _THERE and _relevant(plan))
    known = {place for _, plan in plans for site in plan.sites for place in _places(site)}
    return ScanResult(
        root,
        sources.looked,
        there,
        _unfixed([item for item in findings if known.isdisjoint(_places(item.site))], plans),
        (*sources.unread, *unread),
    )


def _unfixed(findings: Sequence[ScanFinding], plans: Iterable[tuple[Patch, Plan]]) -> tuple[ScanFinding, ...]:
    """What is still found in the files as the patches make them: they may fix a place by another."""
    left, paths = list(findings), {item.site.path for item in findings}
    edits = [edit for _, plan in plans for edit in plan.edits if edit.path in paths]
    edited = [SourceFile(edit.module, edit.path, edit.after) for edit in edits]
    with _looking(edited) as answers:
        for file, answer in zip(edited, answers(), strict=True):
            still = {_essence(item) for item in answer if isinstance(item, ScanFinding)}
            left = [item for item in left if item.site.path != file.path or _essence(item) in still]
    return tuple(left)


def _essence(item: ScanFinding) -> tuple[str, str, str]:
    """A finding, wherever an edit before it has moved it."""
    return item.kind, item.where, item.site.before


def _may_be_there(patch: Patch, tree: SourceTree) -> bool:
    """False only where no defect of the patch is in the text: cheaper to ask than a plan that says so."""
    for edit in patch.edits:
        for module in edit.modules:
            try:
                file = tree.read(module)
            except Unanswered:
                return True
            if file and any(may_match(shape, file.data) for shape in (edit.find, *edit.suspect)):
                return True
    return False


def _relevant(plan: Plan) -> bool:
    """Is there anything of the defect? Where a requirement fails, it is not reached or not that defect."""
    return bool(plan.sites) or plan.state is PlanState.UNREADABLE


def _places(site: Site) -> Iterator[tuple[str, int]]:
    return ((site.path, line) for line in range(site.line, site.end_line + 1))


@contextlib.contextmanager
def _looking(files: Sequence[SourceFile]) -> Iterator[Callable[[], list[Answer]]]:
    """Look at files, in other processes while this one plans patches where there are cores and much to do."""
    kept = CachedFindings()
    known = {file: answer for file in files if (answer := kept.recall(file)) is not None}
    fresh = [file for file in files if file not in known]
    workers = (os.cpu_count() or 1) - 1
    with contextlib.ExitStack() as stack:
        looked: Iterable[Answer] = map(_look, fresh)
        if workers and sum(len(file.data) for file in fresh) > SHARED_BYTES:
            spawned = multiprocessing.get_context("spawn")
            pool = concurrent.futures.ProcessPoolExecutor(workers, spawned, initializer=gc.disable)
            looked = stack.enter_context(pool).map(_look, fresh, chunksize=len(fresh) // (2 * workers) + 1)

        def answers() -> list[Answer]:
            found = dict(zip(fresh, looked, strict=True))
            kept.remember(found.items())
            return [found[file] if file in found else known[file] for file in files]

        yield answers


def _sorted_out(
    files: Iterable[SourceFile], answers: Iterable[Answer]
) -> tuple[list[ScanFinding], list[tuple[str, str]]]:
    findings: list[ScanFinding] = []
    unread: list[tuple[str, str]] = []
    for file, answer in zip(files, answers, strict=True):
        if isinstance(answer, str):
            unread.append((file.path, answer))
        else:
            findings += answer
    return findings, unread


def _look(file: SourceFile) -> Answer:
    try:
        return shapes.look(file.path, file.data)
    except Unparsable as reason:
        return str(reason)
