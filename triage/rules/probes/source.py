"""The installed source of the tree that serves."""

from __future__ import annotations

from triage.evidence.model import Unanswered
from triage.logs.model import Frame
from triage.patching.model import PlanState, SourceFile
from triage.rules.checks import ClassAttribute, PatchState, SourceMatchesFrame
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult, Excerpt

AROUND = 2  # lines shown before and after the one that is meant
FIXED = (PlanState.APPLIED, PlanState.FIXED_UPSTREAM)


def source_matches_frame(probe: SourceMatchesFrame, context: Context) -> CheckResult:
    frame = context.frames[probe.frame]
    found = context.source(frame)
    _require_standing(frame, found)
    return CheckResult("probe", "pass", probe.says, (excerpt(found, frame.line),))


def patch_state(probe: PatchState, context: Context) -> CheckResult:
    """Where the fix is in place but the line that raised is not, the source was fixed after this run."""
    frame = context.frames[probe.frame]
    found = context.source(frame)
    plan = context.plan(probe.patch)
    if plan is None:
        raise Unanswered(f"there is no patch {probe.patch}")
    if plan.state in (PlanState.UNREADABLE, PlanState.NOT_INSTALLED):
        raise Unanswered(plan.reason)
    if plan.state in FIXED and not _stands(frame, found):
        raise Unanswered("the source has been fixed since this run; a restart would run it")
    _require_standing(frame, found)
    excerpts = tuple(
        excerpt(found, site.line, site.end_line) for site in plan.sites if site.path == found.path
    )
    holds = plan.state.value in probe.passes
    detail = probe.says if holds else f"{probe.says}: {plan.state.value}, {plan.reason}"
    return CheckResult("probe", "pass" if holds else "fail", detail, excerpts)


def class_attribute(probe: ClassAttribute, context: Context) -> CheckResult:
    """The class is the one around the frame's line: no guess from the log or the version.

    Without the source, the traceback's own line tells where it subtracts the attribute.
    """
    from triage.patching.inspect import class_at, has_attribute, indexes_from

    frame = context.frames[probe.frame]
    if not context.examined and probe.subtracted and f" - self.{probe.attribute}]" in frame.code:
        return CheckResult("probe", "pass", f"{probe.says}: the traceback shows {frame.code.strip()}")
    found = context.source(frame)
    _require_standing(frame, found)
    owner = class_at(found, frame.line)
    if owner is None:
        raise Unanswered(f"line {frame.line} of {found.path} is in no class")
    checks = [has_attribute(context.tree, owner, probe.attribute)]
    if probe.subtracted:
        checks.append(indexes_from(context.tree, owner, frame.function, probe.attribute))
    if any(check.holds is None for check in checks):
        raise Unanswered("; ".join(check.summary for check in checks))
    sites = [excerpt(found, site.line, site.end_line) for site in checks[0].sites if site.path == found.path]
    return CheckResult(
        "probe",
        "pass" if all(check.holds for check in checks) else "fail",
        f"{probe.says}: {'; '.join(check.summary for check in checks)}",
        (*sites, excerpt(found, frame.line)),
    )


def excerpt(found: SourceFile, line: int, end: int = 0) -> Excerpt:
    """Lines `line` to `end` of a file, 1-based, with a little around them."""
    lines = _lines(found)
    end = max(line, end)
    shown = range(max(1, line - AROUND), min(len(lines), end + AROUND) + 1)
    return Excerpt(found.path, tuple((n, lines[n - 1], line <= n <= end) for n in shown))


def _require_standing(frame: Frame, found: SourceFile) -> None:
    """Another source than the one that ran tells nothing of the run. Raises Unanswered."""
    if not _stands(frame, found):
        raise Unanswered(
            f"line {frame.line} is not what the traceback printed; the source changed after this run"
        )


def _stands(frame: Frame, found: SourceFile) -> bool:
    """Is the traceback's line in the file? A frame that was printed without source cannot disagree."""
    lines = _lines(found)
    in_file = 0 < frame.line <= len(lines)
    return in_file and (not frame.code or lines[frame.line - 1].strip() == frame.code.strip())


def _lines(found: SourceFile) -> list[str]:
    return found.data.decode("utf-8-sig", "backslashreplace").splitlines()
