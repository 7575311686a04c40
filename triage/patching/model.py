"""Patches, the trees they are planned on, and plans. Planning is pure; only `transaction` changes a host."""

from __future__ import annotations

import difflib
import enum
from dataclasses import dataclass
from typing import Protocol


class PlanState(str, enum.Enum):
    """State of one patch on one tree, decided on syntax and the ledger, never on versions or line numbers."""

    APPLICABLE = "applicable"
    APPLIED = "applied"  # by us, the ledger agrees
    FIXED_UPSTREAM = "fixed-upstream"  # the fix's shape is there, not by us
    NOT_AFFECTED = "not-affected"  # neither shape, and the module is understood
    DRIFTED = "drifted"  # we applied it, the file has changed since
    AMBIGUOUS = "ambiguous"  # more or other sites than the patch knows
    BLOCKED = "blocked"  # a precondition fails
    NOT_INSTALLED = "not-installed"
    UNREADABLE = "unreadable"


@dataclass(frozen=True)
class SourceFile:
    """A module of an installed package, byte for byte."""

    module: str  # `sglang.srt.mem_cache.memory_pool`
    path: str  # absolute, on the machine it came from
    data: bytes


class SourceTree(Protocol):
    """A place that modules are read from: a host, a case, a directory."""

    def read(self, module: str) -> SourceFile | None:
        """The module's file; None when the package or module is not there.

        Raises Unanswered (triage.evidence.model) when it is there and cannot be read.
        """
        ...


@dataclass(frozen=True)
class Site:
    """One place in a file: 1-based line span of the statement, its text, and what it becomes."""

    path: str
    line: int
    end_line: int
    before: str
    after: str = ""


@dataclass(frozen=True)
class Check:
    """One precondition that was looked at: what it says, whether it holds, where that was read."""

    summary: str
    holds: bool | None  # None: could not be read
    sites: tuple[Site, ...] = ()


@dataclass(frozen=True)
class FileEdit:
    """The whole new content of one file, and what it must have been before."""

    module: str
    path: str
    before: bytes
    after: bytes

    def diff(self) -> str:
        """`unified` as text, for people."""
        return self.unified().decode("utf-8", "backslashreplace")

    def unified(self) -> bytes:
        """Unified diff, `a/` and `b/` before the absolute path: `patch -p1 -d /` applies it."""
        old, new = (text.splitlines(keepends=True) for text in (self.before, self.after))
        name = self.path.lstrip("/").encode("utf-8", "surrogateescape")
        lines = difflib.diff_bytes(difflib.unified_diff, old, new, b"a/" + name, b"b/" + name)
        missing = b"\n\\ No newline at end of file\n"
        return b"".join(line if line.endswith(b"\n") else line + missing for line in lines)


@dataclass(frozen=True)
class Plan:
    """What a patch would do to a tree. `edits` is empty unless the state is `applicable`.

    `notes` are worth knowing, and stand in the way of nothing.
    """

    patch: str
    state: PlanState
    reason: str
    sites: tuple[Site, ...] = ()
    checks: tuple[Check, ...] = ()
    edits: tuple[FileEdit, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        """Can it be applied, with no question open?"""
        return self.state is PlanState.APPLICABLE and all(check.holds for check in self.checks)

    def diff(self) -> str:
        return "".join(edit.diff() for edit in self.edits)
