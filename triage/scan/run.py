"""A scan: every patch's state, and every place of the class, over the cores of this machine."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
from collections.abc import Iterable, Iterator, Mapping

from triage.patching.model import Plan, Site, SourceFile, SourceTree, State
from triage.patching.schema import Patch
from triage.patching.source import Unparsable
from triage.scan import shapes
from triage.scan.model import Finding, Scan
from triage.scan.read import Sources

_THERE = (State.APPLICABLE, State.AMBIGUOUS, State.DRIFTED, State.UNREADABLE)
_FEW = 16  # files, for which more processes cost more than they save


def scan(
    root: str,
    package: str,
    sources: Sources,
    tree: SourceTree,
    patches: Iterable[Patch],
    context: Mapping[str, str],
) -> Scan:
    """What is found in a package. A place that a patch covers is the patch's, not a finding of its own."""
    from triage.patching.plan import plan_patch

    wanted = [patch for patch in patches if patch.package == package]
    plans = tuple((patch, plan_patch(patch, tree, context)) for patch in wanted)
    there = tuple((patch, plan) for patch, plan in plans if plan.state in _THERE and _relevant(plan))
    known = {place for _, plan in plans for site in plan.sites for place in _places(site)}
    findings, unread = _look_at(sources.files)
    return Scan(
        root,
        sources.looked,
        there,
        tuple(item for item in findings if known.isdisjoint(_places(item.site))),
        (*sources.unread, *unread),
    )


def _relevant(plan: Plan) -> bool:
    """Is there anything of the defect? Where a requirement fails, it is not reached or not that defect."""
    return bool(plan.sites) or plan.state is State.UNREADABLE


def _places(site: Site) -> Iterator[tuple[str, int]]:
    return ((site.path, line) for line in range(site.line, site.end_line + 1))


def _look_at(files: tuple[SourceFile, ...]) -> tuple[list[Finding], list[tuple[str, str]]]:
    findings: list[Finding] = []
    unread: list[tuple[str, str]] = []
    workers = os.cpu_count() or 1
    if len(files) < _FEW or workers == 1:
        answers = list(map(_look, files))
    else:
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
            answers = list(pool.map(_look, files, chunksize=max(1, len(files) // (4 * workers))))
    for file, answer in zip(files, answers, strict=True):
        if isinstance(answer, str):
            unread.append((file.path, answer))
        else:
            findings += answer
    return findings, unread


def _look(file: SourceFile) -> tuple[Finding, ...] | str:
    try:
        return shapes.look(file.path, file.data)
    except Unparsable as reason:
        return str(reason)
