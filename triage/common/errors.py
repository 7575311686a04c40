"""Errors that a person can act on, and the exit codes that a script can rely on."""

from __future__ import annotations

import enum

from triage.common.commands import Next

DEFECT = 70  # sysexits.h: an internal software error; 1 would say that an incident was found
INTERRUPTED = 130  # as shells say of Ctrl-C


class ExitCode(enum.IntEnum):
    """Stable exit codes of every command."""

    OK = 0
    FOUND = 1  # an incident was found, or a verification failed
    USAGE = 2
    UNREACHABLE = 3  # a host or service could not be reached or read
    REFUSED = 4  # refused for safety


class TriageError(Exception):
    """What was being done, to what, what happened, and the next command to run.

    The command line prints it as one paragraph and exits with `exit_code`.
    """

    exit_code: ExitCode = ExitCode.UNREACHABLE

    def __init__(self, doing: str, to: str, happened: str, next: Next) -> None:
        super().__init__(doing, to, happened, next)
        self.doing = doing
        self.to = to
        self.happened = happened
        self.next = next

    def __str__(self) -> str:
        return f"{self.doing} {self.to}: {self.happened}"


class UsageError(TriageError):
    """The request itself is wrong: an unknown name, a broken rule, patch or playbook file."""

    exit_code = ExitCode.USAGE


class UnreachableError(TriageError):
    """A host, service or file could not be reached or read."""

    exit_code = ExitCode.UNREACHABLE


class RefusedError(TriageError):
    """Going on would not be safe."""

    exit_code = ExitCode.REFUSED
