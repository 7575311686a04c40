"""A log file together with what was put aside of it, where it does not hold the start of its run itself."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from triage.evidence.catalogue import RotatedLog, RotatedLogs, TailFile, TailLog
from triage.evidence.catalogue.files import LOGS, TAIL
from triage.evidence.catalogue.rotated import Rotated, live_name
from triage.evidence.model import Evidence
from triage.logs.facts import starts_in
from triage.logs.model import LogSource, Part

MOST = 4
"""Files put aside that are read, at most."""


def read_log_file(evidence: Evidence, query: TailFile, runs: int = 1, since: str = "") -> LogSource:
    """A log file back to the start of the `runs`-th run from its end, as far as the host has kept it.

    What was not written to `since` then (ISO 8601) is older than all of them. A file that cannot be read, of
    which nothing was put aside either, is a source without data that says why.
    """
    path, answer = query.path, evidence.ask(query)
    data = (answer.value or "").encode("utf-8", "surrogateescape")
    data, starts = data.lstrip(b"\0"), starts_in(data)
    pieces, notes, partial, taken = [(path, data)], [], answer.partial, 0
    is_whole = len(data) < TAIL  # otherwise the start may be in what is not read of it
    for file in _put_aside(evidence, query, since)[:MOST] if starts < runs and is_whole else ():
        older = evidence.ask(RotatedLog(file.path))
        if older.value is None:
            notes.append(f"{file.path} could not be read: {older.missing}; on the host: {older.command}")
            break
        data = older.value.encode("utf-8", "surrogateescape")
        pieces.insert(0, (file.path, data))
        partial = partial or older.partial
        starts += starts_in(data)
        taken += max(file.size, len(data))
        if starts >= runs or taken >= TAIL or older.partial:
            break
    pieces = [(name, data) for name, data in pieces if data] or [(path, b"")]
    unread = f"{answer.missing}; on the host: {answer.command}" if answer.value is None else ""
    if unread and pieces[-1][0] == path:
        return LogSource(path, b"", missing="; ".join((unread, *notes)))
    names = [name for name, _ in reversed(pieces) if name != path]
    if names:
        why = f"could not be read ({unread})" if unread else "does not hold the start of the run"
        notes.insert(0, f"{path} {why}: it was read from {', '.join(names)}, too")
    if path.startswith("/proc/"):
        notes.append(f"its log file was deleted while it is written to: it was read through {path}")
    return replace(joined(pieces), partial=partial, last_runs=runs, notes=tuple(notes))


def _put_aside(evidence: Evidence, query: TailFile, since: str) -> tuple[Rotated, ...]:
    """The newest first: of a file that was put aside itself, those that are older."""
    path = query.path
    if path.startswith("/proc/") or (isinstance(query, TailLog) and not path.endswith(LOGS)):
        return ()
    found = evidence.ask(RotatedLogs(live_name(path))).value or ()
    own = next((number for number, file in enumerate(found) if file.path == path), -1)
    earliest = datetime.fromisoformat(since).timestamp() - 1 if since else 0
    return tuple(file for file in found[own + 1 :] if file.modified >= earliest)


def joined(pieces: list[tuple[str, bytes]]) -> LogSource:
    """Files, the oldest first, as the one that they were; it is called like the last one."""
    parts, before, torn = [], 0, 0
    for name, data in pieces:
        parts.append(Part(name, before, before + 1 + torn))
        before += data.count(b"\n")
        torn = int(not data.endswith(b"\n"))
    whole = b"".join(data for _, data in pieces)
    return LogSource(pieces[-1][0], whole, parts=tuple(parts) if len(parts) > 1 else ())
