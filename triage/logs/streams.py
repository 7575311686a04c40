"""Which process wrote a line, and the tracebacks of each process put together.

Where the log names the writer (a journal's pid, the engine's own prefix, a rank), its lines are a
stream of their own, however they interleave. Lines that nobody signed belong to the traceback that
can best use them.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.logs.faults import dumps
from triage.logs.faults.dumps import Dump, Snapshot
from triage.logs.faults.dumps import may_begin as may_begin_dump
from triage.logs.faults.traceback import Kind, Read, Traceback, classify, may_begin, without_margin
from triage.logs.reading.line import Line
from triage.logs.writers import Writers

MAX_OPEN = 64
"""Tracebacks that are read at the same time; the one that waited longest is closed for another."""

PATIENCE = 20
"""Lines of other text in the middle of a traceback, by the same writer, before it counts as cut."""

IDLE = 2000
"""Lines after which a traceback that got none of them is closed."""

LATE = 16
"""Lines after which a complete traceback is not expected to be followed by one that it led to."""

MAX_WRITERS = 65_536

Reading = Traceback | Dump | Snapshot
_Key = tuple[object, ...]
_Said = tuple[int, str, str, bool]
"""A line's number, its site, the beginning of its text, and whether it introduces what follows."""

_NOTHING: _Said = (-10, "", "", False)


class _OpenTraceback:
    __slots__ = ("fed", "misses", "reading", "said", "signed")

    def __init__(self, reading: Reading, signed: bool, now: int) -> None:
        self.reading = reading
        self.signed = signed  # every line of it carries its writer's name
        self.fed = now
        self.misses = 0
        self.said = 0  # stands for all unsigned lines so far


class Streams:
    """Takes the lines of one source in order; gives each its ranks, and the tracebacks as they end."""

    def __init__(self) -> None:
        self._writers = Writers()
        self._open: dict[_Key, _OpenTraceback] = {}
        self._unsigned = 0  # open tracebacks that unsigned lines may belong to
        self._now = 0
        self._ranks: dict[_Key, frozenset[str]] = {}
        self._before: dict[_Key | None, _Said] = {}
        self._latest: Line | None = None
        self._fed: _OpenTraceback | None = None  # what the unsigned line before this one belonged to
        self._alternating = False
        self._followed: dict[int, int] = {}  # what followed which unsigned lines

    def feed(self, line: Line) -> Iterator[Reading]:
        """The tracebacks that a line brings to their end. The line itself gets its ranks and time."""
        key = self._sign(line)
        self._now += 1
        if self._open:
            oldest, held = next(iter(self._open.items()))
            if self._now - held.fed > IDLE:
                yield self._finish(oldest)
            yield from self._continue(line, key)
        elif may_begin(line.text) or may_begin_dump(line.text):
            yield from self._begin(line, key)
        if len(self._before) > MAX_WRITERS:
            self._before.clear()
        text = line.text
        self._before[key] = (line.number, line.site, text[:500], text.endswith(":"))
        if line.time is not None:
            self._latest = line
        elif self._latest is not None:
            line.at(self._latest.time, dated=self._latest.dated)

    def quiet(self) -> bool:
        """Whether nothing is being read."""
        return not self._open

    def close(self) -> Iterator[Reading]:
        """The tracebacks that the end of the log cuts."""
        for key in list(self._open):
            yield self._finish(key)

    def _sign(self, line: Line) -> _Key | None:
        """The writer of a line; its ranks are remembered by pid."""
        self._writers.sign(line)
        pid = line.writer
        if pid is not None:
            key: _Key = (line.boot, line.host, pid) if line.pid is not None else ("tag", line.host, pid)
            known = self._ranks.get(key)
            if line.ranks and not _only_numbered(line.ranks):
                if known != line.ranks and len(self._ranks) < MAX_WRITERS:
                    self._ranks[key] = line.ranks
            elif known:
                line.ranks = known
            return key
        if line.repeating or line.head:
            return ("ranks", line.identifier, line.ranks, line.process)
        return None

    def _continue(self, line: Line, key: _Key | None) -> Iterator[Reading]:
        if key is None:
            yield from self._unsigned_line(line)
            return
        if self._unsigned:
            self._settle(key)
        held = self._open.get(key)
        if held is not None:
            # where only the first line of a record is signed, a signed line ends the record before
            if line.repeating or not line.head:
                kind, match = held.reading.reading(line)
                if held.reading.feed(line, kind, match):
                    held.misses, held.fed = 0, self._now
                    line.taken = True
                    return
                held.misses += 1
                if held.misses <= PATIENCE and not (may_begin(line.text) or may_begin_dump(line.text)):
                    return
            yield self._finish(key)
        yield from self._begin(line, key)

    def _unsigned_line(self, line: Line) -> Iterator[Reading]:
        plain = classify(line.text)
        begins = may_begin_dump(line.text) or plain[0] in (Kind.HEADER, Kind.GROUP)
        best: _OpenTraceback | None = None
        best_score = 0
        best_read = plain
        bare: Read | None = None  # without the margin of an exception group
        for held in self._open.values():
            if held.signed:
                continue
            reading = held.reading
            if reading.depth:
                bare = bare or classify(without_margin(line.text))
                read = bare
            elif reading.base:
                read = reading.reading(line)
            else:
                read = plain
            fit = reading.fits(line, read[0])
            if not fit or (begins and fit < 3):
                continue
            score = self._score(held, fit, read, line.text)
            if score > best_score:
                best, best_score, best_read = held, score, read
        if best is not None and best.reading.feed(line, *best_read):
            self._took(best, line)
        elif begins or plain[0] is Kind.FRAME:
            yield from self._begin(line, None)

    def _score(self, held: _OpenTraceback, fit: int, read: Read, text: str) -> int:
        """How likely an unsigned line goes on with a reading: by grammar, by what is known, by turns."""
        score = fit * 16
        # ranks that fail alike print alike: what followed these very lines once will follow again
        known = self._followed.get(held.said)
        if known is not None:
            score += 6 if known == hash(text) else -2
        kind, match = read
        if held.reading.over and kind in (Kind.INDENTED, Kind.OTHER):
            score -= 8  # an empty line seldom stands in a message
        if kind is Kind.FRAME and match is not None and held.reading.calls((match[3] or "").strip()):
            score += 2
        # of equals the one that was fed last, for a writer's lines tend to stay together; where writers
        # take turns, the other one
        return score + ((held is self._fed) is not self._alternating)

    def _took(self, held: _OpenTraceback, line: Line) -> None:
        text = hash(line.text)
        if len(self._followed) < MAX_WRITERS:
            self._followed.setdefault(held.said, text)
        held.said = hash((held.said, text))
        self._alternating = self._fed is not None and self._fed is not held
        self._fed = held
        held.fed = self._now
        first = held.reading.first
        line.taken = True
        line.ranks = line.ranks or first.ranks
        line.at(first.time, dated=first.dated)

    def _begin(self, line: Line, key: _Key | None) -> Iterator[Reading]:
        text = line.text
        reading: Reading | None = None
        if may_begin_dump(text):
            reading = dumps.begin(line)
        elif may_begin(text):
            kind, match = classify(text)
            if kind in (Kind.HEADER, Kind.GROUP, Kind.FRAME):
                reading = Traceback(line, kind, match, self._header(line, key))
        if reading is None:
            return
        if key is None:
            key = ("unsigned", self._now)
        signed = line.repeating or line.pid is not None
        self._settle(key)
        for other in [each for each, held in self._open.items() if self._is_late(held)]:
            yield self._finish(other)
        if key in self._open:
            yield self._finish(key)
        if len(self._open) >= MAX_OPEN:
            yield self._finish(next(iter(self._open)))
        self._open[key] = held = _OpenTraceback(reading, signed, self._now)
        if not signed:
            self._fed, self._alternating = held, False
        self._unsigned += not signed
        line.taken = True

    def _header(self, line: Line, key: _Key | None) -> str:
        """What the same writer said just before: `WorkerProc hit an exception.`, `Process EngineCore:`"""
        number, site, text, introduces = self._before.get(key, _NOTHING)
        said = site == line.site if line.repeating else introduces
        return text if said and line.number - number <= 2 else ""

    def _is_late(self, held: _OpenTraceback) -> bool:
        """Whether a chain would have followed by now."""
        return held.reading.over and self._now - held.fed > LATE

    def _settle(self, key: _Key) -> None:
        for other, held in self._open.items():
            if not held.signed and other != key:
                held.reading.settle()

    def _finish(self, key: _Key) -> Reading:
        held = self._open.pop(key)
        self._unsigned -= not held.signed
        return held.reading


def _only_numbered(ranks: frozenset[str]) -> bool:
    return all(label.startswith("rank") for label in ranks) if ranks else False
