"""What a comparison amounts to."""

from __future__ import annotations

from triage.rules.diagnosis import Finding


def of_run(holds: bool, detail: str) -> Finding:
    """Of what cannot have changed since the run: it passes or fails."""
    return Finding("probe", "pass" if holds else "fail", detail)


def of_now(holds: bool, detail: str) -> Finding:
    """Of what may have been changed since the run: where it does not hold it only speaks against."""
    if holds:
        return Finding("probe", "pass", detail)
    return Finding("probe", "missing", f"{detail}; it may have been otherwise at the run", against=True)
