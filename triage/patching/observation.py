"""What a host says of files and processes beyond the ledger, read by `patch_observer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triage.common.commands import command
from triage.common.errors import UnreachableError
from triage.patching.remote import PatchAgent
from triage.remote import PATCH_OBSERVER


@dataclass(frozen=True)
class FileFacts:
    """Seconds since 1970 by the host's clock, None where the file is gone.

    `written`: its bytes; `placed`: its last rename or link. `recorded` is its SHA-256 in the RECORD of
    its distribution, "" without one. `bytecode` would be run in its place, made from another text.
    """

    written: float | None = None
    placed: float | None = None
    recorded: str = ""
    bytecode: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observation:
    """Facts by path; where directories really are; when processes were started, by pid."""

    files: Mapping[str, FileFacts] = field(default_factory=dict)
    roots: Mapping[str, str] = field(default_factory=dict)
    started: Mapping[int, float] = field(default_factory=dict)

    def of(self, path: str) -> FileFacts:
        return self.files.get(path, FileFacts())


def observe(
    agent: PatchAgent,
    files: Iterable[tuple[str, str, str]],
    roots: Iterable[str] = (),
    pids: Iterable[int] = (),
) -> Observation:
    """Look at files, given as path, module and distribution. Raises UnreachableError."""
    asked = [
        {"path": path, "module": module, "distribution": distribution}
        for path, module, distribution in dict.fromkeys(files)
    ]
    doing, to = "looking at", ", ".join(item["path"] for item in asked)
    answer = agent.ask(
        doing, to, PATCH_OBSERVER, files=asked, roots=sorted(set(roots)), pids=sorted(set(pids))
    )
    try:
        return Observation(
            {item["path"]: _facts(item) for item in answer["files"]},
            {str(root): str(real) for root, real in answer["roots"].items()},
            {int(pid): float(at) for pid, at in answer["started"].items() if at is not None},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        host = agent.connection.name
        raise UnreachableError(
            doing, f"files on {host}", "its answer makes no sense", command("patch status", host)
        ) from None


def _facts(item: Mapping[str, Any]) -> FileFacts:
    written, placed = (None if item[name] is None else float(item[name]) for name in ("written", "placed"))
    return FileFacts(written, placed, str(item["recorded"]), tuple(map(str, item["bytecode"])))
