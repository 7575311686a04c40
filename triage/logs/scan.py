"""One source, read once from front to back: its runs with their facts and faults."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

from triage.logs import facts, symptoms
from triage.logs.frames import culprit, engine_of
from triage.logs.line import MATCH_LIMIT, Line
from triage.logs.model import Fault, LogSource, Position
from triage.logs.reader import read_lines
from triage.logs.run import Found, Run
from triage.logs.streams import Reading, Streams
from triage.logs.traceback import Kind, classify, names_an_error
from triage.logs.weight import Weighed, Weight, weigh

MAX_OPEN_RUNS = 256
"""Runs that are read at the same time, told apart by invocation."""

MAX_KERNEL = 1000
MAX_ERRORS = 50
"""Error lines without a meaning of their own that are kept of one run."""

AGAIN = 5.0
"""Seconds after which the same banner means another start, also when nothing was seen to fail."""

_STOP = (
    "SIGTERM received",
    "Gracefully exiting",
    "[shutdown] API server: shutdown triggered",
    "trigger received signal=SIGTERM",
)
_SYSTEMD = re.compile(
    r"(?P<what>Starting|Started|Stopping|Stopped) (?:(?P<unit>[\w@.\\:-]{1,255}\.(?:service|scope))\b|(?P<name>.{1,200}?)\.{1,3}$)"
)
_OTHER_UNITS = ("Session ", "User ", "Daily ", "Cleanup ", "Rotate ", "Create ", "Update ", "Message of")
_CHILD = re.compile(r"Rank (\d{1,6}) scheduler died")
_NO_ERRORS = ("Dumping ", "Traceback (most recent call last)")


@lru_cache(maxsize=1)
def _gate() -> re.Pattern[str]:
    """Finds a line that may tell something: most lines tell nothing, and are not looked at again."""
    needles = dict.fromkeys((*symptoms.NEEDLES, *facts.NEEDLES, *_STOP))
    return re.compile("|".join(re.escape(needle) for needle in needles))


class Scan:
    """Read one source; `number` keeps its lines apart from those of other sources."""

    def __init__(self, source: LogSource, number: int = 0) -> None:
        self.source = source
        self.runs: list[Run] = []
        self.kernel: list[Found] = []
        self._streams = Streams()
        self._order = number << 40
        self._open: dict[str, Run] = {}
        self._boot = ""
        self._tells = _gate().search

    def read(self) -> None:
        for line in read_lines(self.source):
            self._order += 1
            line.order = self._order
            if line.kernel:
                self._kernel(line)
            else:
                self._line(line)
        for reading in self._streams.close():
            self._exception(reading)
        for run in self._open.values():
            self._close(run)

    def _line(self, line: Line) -> None:
        text = line.text[:MATCH_LIMIT]
        telling = self._tells(text) is not None
        run = self._run(line, text, telling)
        for reading in self._streams.feed(line):
            self._exception(reading)
        run.saw(line)
        line.phase = run.phase_at(line)
        if line.taken:
            return
        hit = None
        if telling:
            self._facts(run, line)
            hit = symptoms.hits(line)
            if hit is not None:
                run.hit(hit, line, self.source.name)
            elif any(stop in text for stop in _STOP):
                run.asked_to_stop(self._order)
        if hit is None and line.head and line.level in ("ERROR", "CRITICAL"):
            self._error(run, line)
        elif hit is None and "Error: " in text[:200]:
            self._bare(run, line, text)

    def _run(self, line: Line, text: str, telling: bool) -> Run:
        """The run that a line belongs to; begins one where a start is told."""
        key = line.invocation
        if line.boot and line.boot != self._boot and not key:
            if self._boot:
                self._restart(key)
            self._boot = line.boot
        run = self._open.get(key)
        if run is None:
            if len(self._open) >= MAX_OPEN_RUNS:
                self._restart(next(iter(self._open)))
            run = self._open[key] = Run(self.source.name, unit=line.unit, invocation=key, first=self._order)
        if line.identifier == "systemd":
            return self._told_by_systemd(run, line, text)
        run.active = True
        if telling and not key:
            banner = facts.banner_of(text)
            if banner:
                if self._starts_again(run, banner, line):
                    run = self._restart(key)
                    run.active = True
                run.banners.add(banner)
                run.bannered = line.time or run.bannered
        return run

    def _told_by_systemd(self, run: Run, line: Line, text: str) -> Run:
        match = _SYSTEMD.match(text)
        if match is None:
            return run
        unit = match["unit"] or match["name"] or ""
        if unit.startswith(_OTHER_UNITS) or (run.unit and not run.invocation and unit != run.unit):
            return run
        what = match["what"]
        if what in ("Starting", "Started"):
            if run.active and not run.invocation and not (what == "Started" and run.starting):
                run = self._restart(run.invocation)
            run.starting = what == "Starting"
        else:
            run.asked_to_stop(self._order)
        run.unit = run.unit or unit
        return run

    def _starts_again(self, run: Run, banner: str, line: Line) -> bool:
        if banner not in run.banners:
            return False
        if run.found or run.stopped is not None or run.ready:
            return True
        one, other = line.time, run.bannered
        if one is None or other is None or (one.tzinfo is None) != (other.tzinfo is None):
            return False
        return (one - other).total_seconds() > AGAIN

    def _restart(self, key: str) -> Run:
        for reading in self._streams.close():
            self._exception(reading)
        held = self._open.pop(key, None)
        if held is not None:
            self._close(held)
        run = Run(self.source.name, unit=held.unit if held else "", invocation=key, first=self._order)
        self._open[key] = run
        return run

    def _close(self, run: Run) -> None:
        if run.found or run.facts:
            self.runs.append(run)

    def _facts(self, run: Run, line: Line) -> None:
        text = line.text[: facts.LIMIT]
        phase = facts.phase_of(text[:MATCH_LIMIT])
        run.say(
            line, list(facts.facts_of(text)), phase, any(ready in text[:MATCH_LIMIT] for ready in facts.READY)
        )

    def _kernel(self, line: Line) -> None:
        hit = symptoms.hits(line)
        if hit is not None and len(self.kernel) < MAX_KERNEL:
            self.kernel.append(Found.of(hit, line, self.source.name))

    def _exception(self, reading: Reading) -> None:
        fault = reading.fault(self.source.name)
        if fault is None:
            return
        first = reading.first
        run = self._open.get(first.invocation) or next(iter(self._open.values()), None)
        if run is None:
            return
        fault = _blamed(fault)
        found = Found(fault, weigh(fault, first.level), first.order, first.phase)
        found.named = reading.named.order
        child = _CHILD.match(fault.message)
        if child is not None:
            found.process = int(child[1])
        run.errors.pop(fault.header, None)
        run.add(found)

    def _error(self, run: Run, line: Line) -> None:
        text = line.text.strip()
        if text and len(run.errors) < MAX_ERRORS and not text.startswith(_NO_ERRORS):
            fault = _fault("error", "error", text, line, self.source.name)
            run.errors.setdefault(
                fault.message[:500], Found(fault, Weighed(Weight.ERROR), line.order, line.phase)
            )

    def _bare(self, run: Run, line: Line, text: str) -> None:
        """The last line of a traceback whose other lines are not in the log."""
        if line.level in ("INFO", "DEBUG", "WARNING"):
            return
        kind, match = classify(text)
        if kind is not Kind.EXCEPTION or match is None or not match[2] or not names_an_error(match[1]):
            return
        fault = replace(_fault("exception", match[1], match[2], line, self.source.name), cut=True)
        run.add(Found(fault, weigh(fault, line.level), line.order, line.phase))


def _fault(kind: str, type: str, message: str, line: Line, source: str) -> Fault:
    return Fault(
        kind=kind,  # type: ignore[arg-type]
        type=type,
        message=message[:4000],
        position=Position(source, line.number, line.cursor),
        time=line.time,
        pid=line.pid if line.pid is not None else line.tag_pid,
        ranks=line.ranks,
        count=line.repeat,
    )


def _blamed(fault: Fault) -> Fault:
    """With the culprit frame of the fault, of its chain and of its members."""
    chain = tuple(_blamed(each) for each in fault.chain)
    members = tuple(_blamed(each) for each in fault.members)
    # a group only gathers what its members raised
    own = (each.frame for each in members if each.frame is not None and engine_of(each.frame))
    frame = next(own, None) or culprit(fault.frames)
    return replace(fault, frame=frame, chain=chain, members=members)
