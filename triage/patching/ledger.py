"""What was changed on a host, as its ledger has it. Plain values; `transaction` reads and writes them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from triage.common.commands import command
from triage.common.errors import UsageError
from triage.evidence.model import EMPTY
from triage.patching.model import FileEdit

ChangeState = Literal[
    "applying",  # interrupted: the next run finishes or undoes it
    "applied",
    "undone",  # an interrupted apply that was taken back
    "reverting",  # interrupted: the next run finishes it
    "reverted",
    "abandoned",  # its files were changed by another hand, and it is left alone; a note says how
    "unreadable",  # the record is damaged or from a newer version, as its note says
]


@dataclass(frozen=True)
class ChangedFile:
    """One file of a change: SHA-256 digests before and after it, and now.

    `now` is None where the file is gone, "" where it cannot be read.
    """

    module: str
    path: str
    before: str
    after: str
    now: str | None = None
    links: int = 1  # hard links that the file had; more than one were cut off from it
    symlink: str = ""  # what the path pointed to, where it was a symbolic link


@dataclass(frozen=True)
class PatchChange:
    """One application of one patch. `version` is the distribution's when it was made, `installed` now's."""

    id: str
    patch: str
    state: ChangeState
    at: str  # ISO 8601, UTC, the host's clock
    by: str
    distribution: str
    version: str
    installed: str
    files: tuple[ChangedFile, ...]
    notes: tuple[str, ...] = ()
    context: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # what was known of the deployment
    ledger: str = ""  # the directory that holds it
    new: bool = False  # made by the call that returned it

    @property
    def interrupted(self) -> bool:
        """Cut short; the next run finishes it or takes it back."""
        return self.state in ("applying", "reverting")

    @property
    def root(self) -> str:
        """The directory that the package was imported from."""
        first = self.files[0]
        depth = first.module.count(".") + 1 + first.path.endswith("/__init__.py")
        return first.path.rsplit("/", depth)[0]

    @property
    def superseded(self) -> bool:
        """Another version of the distribution has been installed since."""
        return self.version != self.installed


@dataclass(frozen=True)
class LedgerView:
    """All changes on record, oldest first."""

    changes: tuple[PatchChange, ...] = ()

    def with_planned(self, patch: str, edits: Iterable[FileEdit]) -> LedgerView:
        """The record as it will be when some edits are made."""
        files = tuple(
            ChangedFile(edit.module, edit.path, _digest(edit.before), _digest(edit.after)) for edit in edits
        )
        planned = PatchChange("", patch, "applied", "", "", "", "", "", files)
        return LedgerView((*self.changes, planned))

    def active(self, path: str) -> tuple[tuple[PatchChange, ChangedFile], ...]:
        """The changes that made a file what it is, oldest first."""
        return tuple(
            (change, file)
            for change in self.changes
            if (change.state == "applied" or change.interrupted) and not change.superseded
            for file in change.files
            if file.path == path
        )

    def pristine(self, path: str, digest: str) -> str:
        """The SHA-256 that a file, now `digest`, had before the changes that led to it."""
        for _, file in reversed(self.active(path)):
            digest = file.before if file.after == digest else digest
        return digest

    def standing(self, patch: str, path: str, digest: str) -> Standing:
        """How a file, whose SHA-256 now is `digest`, stands to a patch that may have been applied to it."""
        chain = self.active(path)
        own = [index for index, (change, _) in enumerate(chain) if change.patch == patch]
        if not own:
            return Standing("none")
        change, file = chain[own[-1]]
        later = chain[own[-1] :]
        unbroken = all(one[1].after == other[1].before for one, other in itertools.pairwise(later))
        if unbroken and later[-1][1].after == digest:
            return Standing("applied", change)
        return Standing("restored" if digest == file.before else "drifted", change)


@dataclass(frozen=True)
class Standing:
    """`none`: not applied. `restored`: applied, and the old bytes are back by another hand."""

    kind: Literal["none", "applied", "drifted", "restored"]
    change: PatchChange | None = None


def choose(changes: Sequence[PatchChange], name: str, host: str) -> PatchChange:
    """The applied change that an id of a change or a patch means. Raises UsageError."""
    applied = [change for change in changes if change.state == "applied" or change.interrupted]
    found = [change for change in changes if change.id == name] or [
        change for change in applied if not name or change.patch == name
    ]
    if len(found) == 1:
        return found[0]
    names = ", ".join(change.id for change in (found or applied))
    happened = f"it could be any of {names}" if found else f"no such change is applied on {host}"
    raise UsageError("looking for change", name or "(none named)", happened, command("patch status", host))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
