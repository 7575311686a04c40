"""One source, read once from front to back: its runs with their facts and faults."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from triage.engines import ENGINES
from triage.logs import facts
from triage.logs.faults import lines
from triage.logs.faults.dumps import Snapshot
from triage.logs.faults.fault_lines import UNSIGNED
from triage.logs.faults.traceback import Kind, Traceback, classify, names_an_error
from triage.logs.faults.weight import Weighed, Weight, weigh
from triage.logs.model import Fault, LogSource, Position
from triage.logs.reading.entries import windows_of
from triage.logs.reading.line import MATCH_LIMIT, Line
from triage.logs.reading.places import BOOTS, LOST, STOPS
from triage.logs.reading.reader import read_lines
from triage.logs.repeats import Repeats
from triage.logs.requests import SENT, Requests, introduces
from triage.logs.run import FoundFault, LogRun, Room, Speaker
from triage.logs.signatures import Signatures
from triage.logs.streams import Reading, Streams

MAX_OPEN_RUNS = 256
"""Runs that are read at the same time, told apart by invocation."""

KEPT_APART = 64
"""Runs that are kept even if they equal one before; of later ones only the number and the end are."""

MAX_RUNS = 4096
"""Different runs of one source that are kept."""

NUMBER_BITS = 40
"""Of the number of a line within its source; the number of the source stands above them."""

MAX_KERNEL = 1000
MAX_ERRORS = 50
"""Error lines without a meaning of their own that are kept of one run."""

AGAIN = 5.0
"""Seconds after which the same banner means another start, also when nothing was seen to fail."""

AT_THE_END = 32
"""Lines that may come behind the first line of a traceback that the end of the log cut: of other ranks."""

_SYSTEMD = re.compile(
    r"(?P<what>Starting|Started|Stopping|Stopped) "
    r"(?:(?P<unit>[\w@.\\:-]{1,255}\.(?:service|scope))\b|(?P<name>.{1,200}?)\.{1,3}$)"
)
_OTHER_UNITS = ("Session ", "User ", "Daily ", "Cleanup ", "Rotate ", "Create ", "Update ", "Message of")
_LOGS = [engine.log for engine in ENGINES.values()]
SERVING = tuple(words for log in _LOGS for words in log.serving)
ANSWERED = tuple({log.answered for log in _LOGS if log.answered})
_ANSWERED_ENDS = tuple(end for _, end in ANSWERED)
_LOST = re.compile(LOST + r"(?P<count>\d{1,12}) messages from (?:/\S{0,256}/)?(?P<unit>[^\s/]{1,255})$")
_JOURNALD = frozenset(("systemd-journald", "systemd-journal", "journal"))
MAX_LOSERS = 64
_CHILD = re.compile(r"Rank (\d{1,6}) scheduler died")
_NO_ERRORS = ("Dumping ", "Traceback (most recent call last)")


@lru_cache(maxsize=1)
def needles() -> tuple[str, ...]:
    """A line without any of these, and that is no part of a traceback, tells only who was there when."""
    return tuple(dict.fromkeys((*lines.needles(), *facts.NEEDLES, *STOPS)))


class LogScan:
    """Read one source; `number` keeps its lines apart from those of other sources."""

    def __init__(self, source: LogSource, number: int = 0) -> None:
        self.source = source
        self.runs: list[LogRun] = []
        self.kernel: list[FoundFault] = []
        self.active = False  # somebody else than the kernel and systemd spoke
        self.stopped = False  # the last run was asked to stop
        self.last: LogRun | None = None  # the run that ended last
        self.lost: dict[str, int] = {}  # by unit, the messages that journald did not keep
        self._streams = Streams()
        self._repeats = Repeats()
        self._windows = windows_of(source, self._streams.quiet, self._repeats)
        self._requests = Requests()
        self._signatures = Signatures()
        self._base = self._order = number << NUMBER_BITS
        self._room = Room()
        self._open: dict[str, LogRun] = {}
        self._kept: dict[tuple[object, ...], LogRun] = {}
        self._boot = ""
        self._needles = needles()

    def read(self) -> None:
        for line in read_lines(self.source, self._windows):
            lost = line.identifier in _JOURNALD and self._loses(line)
            if line.gap or lost:
                self._requests.forget()
                for reading in self._streams.close():
                    self._exception(reading)
            if lost:
                continue
            self._order += 1
            line.order = self._order
            line.number += self._base
            line.source = self.source.name
            self._signatures.saw(line)
            if line.kernel:
                self._kernel(line)
            else:
                self._line(line)
        for reading in self._streams.close():
            self._exception(reading)
            self._begun(reading)
        for key in list(self._open):
            self._end(key)
        if self._signatures.mixed:
            for found in (*self.kernel, *(found for run in self.runs for found in run.found.values())):
                if found.fault.kind in ("kernel", "service") and not found.fault.doubt:
                    found.fault = replace(found.fault, doubt=UNSIGNED)

    def number(self, given: int) -> int:
        """The number of a line in its source, where `Line.number` only orders the lines of all sources."""
        return self._windows.number(given - self._base)

    def _loses(self, line: Line) -> bool:
        """Whether journald says how many messages of a unit it did not keep, for they came too fast."""
        match = _LOST.match(line.text)
        if match is not None and (match["unit"] in self.lost or len(self.lost) < MAX_LOSERS):
            self.lost[match["unit"]] = self.lost.get(match["unit"], 0) + int(match["count"])
        return match is not None

    def _line(self, line: Line) -> None:
        run = self._run(line)
        line.quoted = self._requests.holds(line)
        for reading in self._streams.feed(line):
            self._exception(reading)
        if line.taken:
            self._repeats.learn(line.shape)
        else:
            run = self._told(run, line)
        run.saw(line)
        line.phase = run.phase_at(line)

    def _run(self, line: Line) -> LogRun:
        """The run that a line belongs to, as far as the log names it or goes on with the one before."""
        key = line.invocation
        if not key and line.boot != self._boot and line.boot:
            if self._boot:
                self._end(key)
            self._boot = line.boot
        run = self._open.get(key)
        if run is None:
            if len(self._open) >= MAX_OPEN_RUNS:
                self._end(next(iter(self._open)))
            self._repeats.forget()
            run = self._open[key] = LogRun(self.source.name, unit=line.unit, invocation=key, room=self._room)
        elif line.unit and not run.unit:
            run.unit = line.unit
        return run

    def _told(self, run: LogRun, line: Line) -> LogRun:
        """Take what a line says for itself: a start (the run is another one then), a stop, facts, a fault."""
        if line.quoted:
            run.active = True
            run.spoke = line.order
            return run
        text = line.text[:MATCH_LIMIT]
        if line.identifier == "systemd" and line.author == "manager" and not self._signatures.mixed:
            run = self._told_by_systemd(run, line, text)
        elif text.startswith(BOOTS) and not run.invocation and not self._signatures.mixed:
            return self._restart(run)
        else:
            run.active = True
            if line.author != "manager":
                run.spoke = line.order
                if text.startswith(SERVING) or (text.endswith(_ANSWERED_ENDS) and _answered(text)):
                    run.served = line.time
        hit, more = None, line.identifier == "systemd"
        if any(map(text.__contains__, self._needles)):
            banner = facts.banner_of(text)
            if banner:
                if not run.invocation and self._starts_again(run, banner, line):
                    run = self._restart(run)
                run.banners.add(banner)
                run.bannered = line.time or run.bannered
                run.speaker = _speaker(line)
            more = self._facts(run, line) or bool(banner)
            line.phase = run.phase_at(line)
            hit = lines.hits(line)
            if hit is not None:
                self._repeats.name(line.shape, run.hit(hit, line, self.source.name))
            elif any(map(text.__contains__, STOPS)):
                run.asked_to_stop(line)
                more = True
        fails = hit is not None or self._bare(run, line, text)
        if not fails and line.head and line.level in ("ERROR", "CRITICAL"):
            self._error(run, line)
        if not more:
            self._repeats.learn(line.shape)
        return run

    def _told_by_systemd(self, run: LogRun, line: Line, text: str) -> LogRun:
        match = _SYSTEMD.match(text)
        if match is None:
            return run
        unit = match["unit"] or match["name"] or ""
        if unit.startswith(_OTHER_UNITS) or (run.unit and not run.invocation and unit != run.unit):
            return run
        what = match["what"]
        if what in ("Starting", "Started"):
            if run.active and not run.invocation and not (what == "Started" and run.starting):
                run = self._restart(run)
            run.starting = what == "Starting"
        else:
            run.asked_to_stop(line)
        run.unit = run.unit or unit
        return run

    def _starts_again(self, run: LogRun, banner: str, line: Line) -> bool:
        if not run.banners:
            return any(found.weight <= Weight.CONSEQUENCE for found in run.found.values())
        failing = bool(run.found) or not self._streams.quiet()  # whose end is not in sight
        if banner not in run.banners:
            return facts.BANNERS[banner] not in map(facts.BANNERS.get, run.banners) and (
                failing or run.stopped is not None
            )
        if failing or run.stopped is not None or run.ready or _by_another(run.speaker, _speaker(line)):
            return True
        one, other = line.time, run.bannered
        if one is None or other is None or (one.tzinfo is None) != (other.tzinfo is None):
            return False
        return (one - other).total_seconds() > AGAIN

    def _restart(self, run: LogRun) -> LogRun:
        """End a run, and begin the next one of the same unit."""
        self._end(run.invocation)
        self._repeats.forget()
        following = LogRun(self.source.name, unit=run.unit, room=self._room, active=True)
        self._open[run.invocation] = following
        return following

    def _end(self, key: str) -> None:
        for reading in self._streams.close():
            self._exception(reading)
        run = self._open.pop(key, None)
        if run is not None:
            self._close(run)

    def _close(self, run: LogRun) -> None:
        """Keep a run that ended; of a restart loop the first ones, and how often they came again."""
        self.active = self.active or run.active
        self.stopped = run.stopped is not None
        self.last = run
        if not (run.found or run.facts):
            return
        mark = (run.unit, tuple(run.found))
        known = self._kept.get(mark)
        if known is not None and len(self.runs) >= KEPT_APART:
            known.times += 1
            known.again = run.ended or known.again
        elif len(self.runs) < MAX_RUNS:
            self.runs.append(run)
            self._kept.setdefault(mark, run)

    def _facts(self, run: LogRun, line: Line) -> bool:
        """Whether a line told something of the deployment, or how far it is."""
        text = line.text[: facts.LIMIT]
        said, phase = list(facts.facts_of(text)), facts.phase_of(text[:MATCH_LIMIT])
        ready = any(ready in text[:MATCH_LIMIT] for ready in facts.READY)
        run.say(line, said, phase, ready)
        return bool(said or phase or ready)

    def _kernel(self, line: Line) -> None:
        hit = lines.hits(line)
        if hit is not None and len(self.kernel) < MAX_KERNEL:
            self.kernel.append(FoundFault.of(hit, line, self.source.name))

    def _exception(self, reading: Reading) -> None:
        first = reading.first
        run = self._open.get(first.invocation) or next(iter(self._open.values()), None)
        if run is None:
            return
        if isinstance(reading, Snapshot):
            run.stood(reading)
            return
        if not reading.whole and self._repeats.knows(reading.named.shape):
            self._repeats.again(reading.named.shape)
            return
        fault = reading.fault(self.source.name)
        if fault is None:
            return
        if first.quoted or introduces(fault.header):
            fault = replace(fault, doubt=SENT)
        found = FoundFault(fault, weigh(fault, first.level), first.order, first.phase)
        found.named = reading.named.order
        child = _CHILD.match(fault.message)
        if child is not None:
            found.process = int(child[1])
        run.errors.pop(fault.header, None)
        self._repeats.name(reading.named.shape, run.add(found))

    def _begun(self, reading: Reading) -> None:
        """Keep a traceback of which the log has only the first line: nothing says what failed."""
        first = reading.first
        if not isinstance(reading, Traceback) or self._order - first.order > AT_THE_END:
            return
        run, fault = self._open.get(first.invocation), reading.begun(self.source.name)
        if run is not None and fault is not None and weigh(fault, first.level).weight is not Weight.BENIGN:
            run.add(FoundFault(fault, Weighed(Weight.CONSEQUENCE), first.order, first.phase))

    def _error(self, run: LogRun, line: Line) -> None:
        text = line.text.strip()
        if text and len(run.errors) < MAX_ERRORS and not text.startswith(_NO_ERRORS):
            fault = _fault("error", "error", text, line, self.source.name)
            run.errors.setdefault(
                fault.message[:500], FoundFault(fault, Weighed(Weight.ERROR), line.order, line.phase)
            )

    def _bare(self, run: LogRun, line: Line, text: str) -> bool:
        """Whether a line is the last one of a traceback whose other lines are not in the log."""
        if "Error: " not in text[:200] or line.level in ("INFO", "DEBUG", "WARNING"):
            return False
        kind, match = classify(text)
        if kind is not Kind.EXCEPTION or match is None or not match[2] or not names_an_error(match[1]):
            return False
        if self._repeats.knows(line.shape):
            self._repeats.again(line.shape)
            return True
        fault = _fault("exception", match[1], match[2], line, self.source.name, cut=True)
        kept = run.add(FoundFault(fault, weigh(fault, line.level), line.order, line.phase))
        self._repeats.name(line.shape, kept)
        return True


def _answered(text: str) -> bool:
    """Whether a line tells of a request that was answered."""
    return any(words in text and text.endswith(end) for words, end in ANSWERED)


def _speaker(line: Line) -> Speaker:
    return (line.host, line.identifier, line.process, line.ranks), line.writer


def _by_another(before: Speaker | None, now: Speaker) -> bool:
    """Whether what is said once at a start was said by two processes that have the same part in it."""
    return before is not None and before[0] == now[0] and None not in (before[1], now[1]) and before != now


def _fault(kind: str, type: str, message: str, line: Line, source: str, cut: bool = False) -> Fault:
    return Fault(
        kind=kind,  # type: ignore[arg-type]
        type=type,
        message=message[:4000],
        position=Position(source, line.number, line.cursor),
        time=line.time,
        pid=line.writer,
        ranks=line.ranks,
        count=line.repeat,
        cut=cut,
    )
