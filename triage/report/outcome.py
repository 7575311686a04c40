"""In words, how a diagnosis without an incident ends: nothing failed, or nothing was recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triage.workflows.diagnose import Report

NONE = "No incident: the log of the last run holds no fault."


def heading(report: Report) -> str:
    """One line that says which of both it is."""
    if report.outcome == "nothing-failed":
        return NONE
    read = report.look.read if report.look else 0
    if not read:
        return "Nothing recognised: the log is empty."
    if report.look and report.look.suspicious:
        return f"Nothing recognised: none of the {read} lines that were read says that something failed."
    return f"Nothing recognised: none of the {read} lines that were read has a word of failure."


def reasons(report: Report) -> tuple[str, ...]:
    """What shows that nothing failed; or the lines that come nearest to a failure, and what to do."""
    if report.outcome == "nothing-failed":
        return ("; ".join(report.health),)
    lines = report.look.suspicious if report.look else ()
    near = tuple(f"nearest: {line.source}:{line.number}: {line.text}" for line in lines)
    return (
        *near,
        "nothing shows that it became ready, answered a request or was stopped: this proves no health",
        "next: give a longer part of the log, or the log of the process that failed",
    )
