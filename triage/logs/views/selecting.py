"""The records of a log that somebody asks for."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from heapq import merge

from triage.common.errors import UsageError
from triage.logs.model import LogSource, Record
from triage.logs.ranks import names
from triage.logs.reading.entries import windows_of
from triage.logs.reading.reader import read_lines
from triage.logs.reading.records import read_records
from triage.logs.views.moments import ANY_TIME, Window, seconds
from triage.logs.views.pattern import Pattern
from triage.logs.views.timeline import Redact

MAIN = "main"
"""What records without a rank are called."""

MAX_RANKS = 4096


@dataclass(frozen=True)
class Selection:
    """What to show: of any of these ranks, in the window, with the pattern, and of these the last ones."""

    ranks: tuple[str, ...] = ()  # `PP3`, `PP3 TP0`, `main`
    window: Window = ANY_TIME
    pattern: Pattern | None = None
    last: int | None = None


def select(sources: Sequence[LogSource], selection: Selection, redact: Redact) -> Iterator[Record]:
    """The records in order, of several sources by time. Raises UsageError for a rank that is not there."""
    chosen = _chosen(sources, selection)
    if selection.last is not None:
        chosen = iter(deque(chosen, maxlen=selection.last))
    return (replace(record, text=redact(record.text)) for record in chosen)


def last_time(sources: Iterable[LogSource]) -> datetime | None:
    """The time of the last record that has one; of several sources the latest."""
    latest = []
    for source in sources:
        time = None
        for line in read_lines(source, windows_of(source, quiet=lambda: True)):
            time = line.time or time
        if time is not None:
            latest.append(time)
    return max(latest, key=seconds, default=None)


def _chosen(sources: Sequence[LogSource], selection: Selection) -> Iterator[Record]:
    wanted = [_labels(rank) for rank in selection.ranks]
    seen: set[frozenset[str]] = set()
    pattern = selection.pattern
    with pattern.watched() if pattern else nullcontext():
        for record in _by_time(sources):
            if len(seen) < MAX_RANKS:
                seen.add(record.ranks)
            if (
                (not wanted or any(_is(record.ranks, labels) for labels in wanted))
                and record.time in selection.window
                and (pattern is None or pattern.found_in(record.text))
            ):
                yield record
    for rank, labels in zip(selection.ranks, wanted, strict=True):
        if not any(_is(ranks, labels) for ranks in seen):
            there = ", ".join(names(ranks for ranks in seen if ranks)[:64]) or "none"
            raise UsageError(
                "selecting",
                f"rank {rank}",
                f"no record is of this rank; the log has {there}",
                "triage logs FILE",
            )


def _labels(rank: str) -> frozenset[str]:
    return frozenset() if rank == MAIN else frozenset(re.split(r"[\s,-]+", rank.strip()))


def _is(ranks: frozenset[str], labels: frozenset[str]) -> bool:
    return labels <= ranks if labels else not ranks


def _by_time(sources: Sequence[LogSource]) -> Iterator[Record]:
    if len(sources) == 1:
        return read_records(sources[0])
    return (record for _, _, record in merge(*map(_timed, range(len(sources)), sources)))


def _timed(number: int, source: LogSource) -> Iterator[tuple[float, int, Record]]:
    """Each record with the latest time so far, so that a source stays in its own order."""
    latest = float("-inf")
    for record in read_records(source):
        if record.time is not None:
            latest = max(latest, seconds(record.time))
        yield latest, number, record
