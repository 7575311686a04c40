"""Plans and changes of patches, as text and as `triage.patch/1`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from triage.patching.change_status import Outlook, RunningService
from triage.patching.ledger import PatchChange
from triage.patching.model import Check, FileEdit, Plan, PlanState, Site
from triage.patching.rebase import Rebased
from triage.patching.schema import Patch
from triage.report.safe import safe, safe_line
from triage.workflows.patch import PatchResult, PatchStatus, RebaseResult

_STYLES = {
    PlanState.APPLICABLE: "bold yellow",
    PlanState.APPLIED: "bold green",
    PlanState.FIXED_UPSTREAM: "bold green",
    PlanState.NOT_AFFECTED: "bold green",
}
_RUNS = {True: "green", False: "bold yellow", None: "dim"}
_VERDICTS = {
    "in place": "bold green",
    "needs nothing": "bold green",
    "applies again": "bold yellow",
    "conflict": "bold red",
}
_MAX_DIFF = 60  # lines of a conflict
_ANSWERS = {True: ("yes", "green"), False: ("no", "red"), None: ("open", "yellow")}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}


def plan_lines(patch: Patch, plan: Plan) -> Iterator[Text]:
    """The state and its reason, what was checked with the lines that were read, and the diff."""
    yield Text.assemble((patch.id, "bold"), ": ", (plan.state.value, _STYLES.get(plan.state, "bold red")))
    yield Text(f"  {safe_line(patch.title)}", "dim")
    yield Text(f"  {safe_line(plan.reason)}")
    for check in plan.checks:
        answer, style = _ANSWERS[check.holds]
        yield Text.assemble(f"  {safe_line(check.summary)}: ", (answer, style))
        for site in check.sites:
            yield _site_line(site)
    for note in plan.notes:
        yield Text(f"  note: {safe_line(note)}", "yellow")
    if plan.edits:
        yield from diff_lines(plan.diff())
    else:
        for site in plan.sites:
            yield _site_line(site)


def diff_lines(diff: str) -> Iterator[Text]:
    for line in diff.splitlines():
        style = "bold" if line.startswith(("---", "+++")) else _DIFF.get(line[:1], "")
        yield Text(safe(line), style)


def change_lines(change: PatchChange) -> Iterator[Text]:
    """One change on record, and how its files stand to it now."""
    style = {"applied": "bold green", "reverted": "bold"}.get(change.state, "bold yellow")
    yield Text.assemble((safe_line(change.id), "bold"), ": ", (change.state, style))
    if change.patch:
        yield Text(f"  {safe_line(change.patch)}, {safe_line(change.at)}, by {safe_line(change.by)}", "dim")
    if change.superseded:
        yield Text(
            f"  made on {safe_line(change.version)}; {safe_line(change.installed) or '?'} is installed now"
        )
    for file in change.files:
        yield Text(f"  {safe_line(file.path)}: {standing(change, file.now)}")
        if file.links > 1 or file.symlink:
            what = "a symbolic link" if file.symlink else f"one of {file.links} hard links"
            yield Text(f"    was {what}, now a file of its own", "dim")
    if change.interrupted:
        yield Text("  cut short; the next run that changes something finishes it or takes it back", "yellow")
    for note in change.notes:
        yield Text(f"  note: {safe_line(note)}", "yellow")


def outlook_lines(outlook: Outlook, next: str = "") -> Iterator[Text]:
    """A change on record, what happened to it, which services run it, and the next command."""
    yield from change_lines(outlook.change)
    if outlook.happened:
        yield Text(f"  {safe_line(outlook.happened)}", "bold yellow")
    for run in outlook.runs:
        if run.current is False or outlook.change.state == "applied":
            yield Text(f"  {safe_line(run_line(outlook, run))}", _RUNS[run.current])
    if next:
        yield Text(f"  next: {safe_line(next)}")


def rebased_lines(item: Rebased) -> Iterator[Text]:
    """What becomes of a change: verdict, what happened, the plan on what is installed now, the conflict."""
    yield Text.assemble((safe_line(item.change.id), "bold"), ": ", (item.verdict, _VERDICTS[item.verdict]))
    if item.outlook.happened:
        yield Text(f"  {safe_line(item.outlook.happened)}")
    if item.patch and item.plan:
        yield from plan_lines(item.patch, item.plan)
    elif item.verdict == "conflict":
        yield Text("  no such patch is known; --patches names a directory of further ones")
    if item.diff:
        edited = item.outlook.cause == "edited"
        yield Text("  what another hand made of it:" if edited else "  the change as it was made:", "bold")
        lines = list(diff_lines(item.diff))
        yield from lines[:_MAX_DIFF]
        if len(lines) > _MAX_DIFF:
            yield Text(f"  ... {len(lines) - _MAX_DIFF} further lines", "dim")


def _rebased(item: Rebased) -> dict[str, Any]:
    return {
        "change": item.change.id,
        "verdict": item.verdict,
        "happened": item.outlook.happened,
        "plan": plan_document(item.patch, item.plan) if item.patch and item.plan else None,
        "diff": item.diff,
    }


def run_line(outlook: Outlook, run: RunningService) -> str:
    """`kimi.service (pid 812) does not run the change yet: started ..., before it`"""
    name = run.service.name
    if run.service.unit and run.service.pid:
        name += f" (pid {run.service.pid})"
    if run.current is None:
        return f"{name}: {run.why}"
    if outlook.change.state == "reverted":
        return f"{name} still runs the change: {run.why}"
    return f"{name} {'runs the change' if run.current else 'does not run the change yet'}: {run.why}"


def standing(change: PatchChange, now: str | None) -> str:
    """Return in words what a file of a change holds now."""
    for file in change.files:
        if now == file.after:
            return "as the change left it"
        if now == file.before:
            return "as it was before the change"
    if not now:
        return "gone" if now is None else "cannot be read"
    return "changed since by another hand"


def document(result: PatchResult) -> dict[str, Any]:
    """`triage.patch/1`."""
    return {
        "schema": "triage.patch/1",
        "host": result.host,
        "package_root": result.package_root,
        "patches": [plan_document(patch, plan) for patch, plan in result.plans],
        "changes": [_change(change) for change in result.changes],
    }


def lines(result: PatchResult) -> Iterator[Text]:
    """The plans, and then the changes that were made."""
    for patch, plan in result.plans:
        yield from plan_lines(patch, plan)
    for change in result.changes:
        yield from change_lines(change)


def status_document(status: PatchStatus) -> dict[str, Any]:
    """`triage.patch/1`, whose changes say what has become of them."""
    changes = [_outlook(outlook, next) for outlook, next in status.outlooks]
    return {**document(PatchResult(status.host)), "changes": changes}


def status_lines(status: PatchStatus) -> Iterator[Text]:
    for outlook, next in status.outlooks:
        yield from outlook_lines(outlook, next)
    if not status.outlooks:
        yield Text(f"nothing was changed on {safe_line(status.host)}")


def rebase_document(rebase: RebaseResult) -> dict[str, Any]:
    """`triage.patch/1`, with what was found of each change on record."""
    found = [_rebased(item) for item in rebase.found]
    return {**document(PatchResult(rebase.host, changes=rebase.changes)), "rebased": found}


def rebase_lines(rebase: RebaseResult) -> Iterator[Text]:
    for item in rebase.found:
        yield from rebased_lines(item)


def _outlook(outlook: Outlook, next: str) -> dict[str, Any]:
    runs = [
        {"name": run.service.name, "pid": run.service.pid, "current": run.current, "why": run.why}
        for run in outlook.runs
    ]
    return {**_change(outlook.change), "happened": outlook.happened, "services": runs, "next": next}


def plan_document(patch: Patch, plan: Plan) -> dict[str, Any]:
    return {
        "id": patch.id,
        "title": patch.title,
        "distribution": patch.distribution,
        "affected": patch.affected,
        "references": list(patch.references),
        "state": plan.state.value,
        "reason": plan.reason,
        "sites": [_site(site) for site in plan.sites],
        "checks": [_check(check) for check in plan.checks],
        "notes": list(plan.notes),
        "edits": [_edit(edit) for edit in plan.edits],
        "diff": plan.diff(),
    }


def _edit(edit: FileEdit) -> dict[str, Any]:
    return {"module": edit.module, "path": edit.path}


def _check(check: Check) -> dict[str, Any]:
    return {
        "summary": check.summary,
        "holds": check.holds,
        "sites": [_site(site) for site in check.sites],
    }


def _site(site: Site) -> dict[str, Any]:
    return {
        "path": site.path,
        "line": site.line,
        "end_line": site.end_line,
        "before": site.before,
        "after": site.after,
    }


def _change(change: PatchChange) -> dict[str, Any]:
    return {
        "id": change.id,
        "patch": change.patch,
        "state": change.state,
        "at": change.at,
        "by": change.by,
        "distribution": change.distribution,
        "version": change.version,
        "installed": change.installed,
        "superseded": change.superseded,
        "new": change.new,
        "files": [
            {
                "module": file.module,
                "path": file.path,
                "before": file.before,
                "after": file.after,
                "now": file.now,
                "links": file.links,
                "symlink": file.symlink,
            }
            for file in change.files
        ],
        "notes": list(change.notes),
        "ledger": change.ledger,
    }


def _site_line(site: Site) -> Text:
    first = safe_line(site.before.strip().partition("\n")[0], 120)
    return Text.assemble((f"      {safe_line(site.path)}:{site.line}  ", "dim"), first)
