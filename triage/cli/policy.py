"""`triage policy`: every command that triage runs to look at a host, and what it may need."""

from __future__ import annotations

from triage.cli import console
from triage.cli.options import Format, FormatOption


def policy(format: FormatOption = Format.TEXT) -> None:
    """Print the catalogue of read-only commands, what each is for, and the sudoers lines for them.

    UNIT, PID, FILE and other words in capitals stand for what a diagnosis fills in.
    """
    from triage.evidence.catalogue import policy

    console.show(policy.policy(), format)
