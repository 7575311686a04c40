"""What a comparison amounts to."""

from __future__ import annotations

from triage.rules.diagnosis import CheckResult


def of_run(holds: bool, detail: str) -> CheckResult:
    """Judge what cannot have changed since the run: it passes or fails."""
    return CheckResult("probe", "pass" if holds else "fail", detail)


def of_now(holds: bool, detail: str) -> CheckResult:
    """Judge what may have changed since the run: if it does not hold, it only speaks against."""
    if holds:
        return CheckResult("probe", "pass", detail)
    return CheckResult("probe", "missing", f"{detail}; it may have been otherwise at the run", against=True)
