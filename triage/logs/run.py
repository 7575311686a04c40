"""One run of a deployment, as its log lines are read: who took part, what failed, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from triage.logs.facts import merge
from triage.logs.faults.dumps import Snapshot
from triage.logs.faults.fault_lines import Hit
from triage.logs.faults.fingerprint import normal
from triage.logs.faults.weight import Weighed, Weight
from triage.logs.model import Fault
from triage.logs.reading.line import Line

MAX_FAULTS = 2000
"""Different faults that are kept of one run; equal ones are counted."""

FEW = 16
"""Of them, those that are kept of every run, however much room the others take."""

ROOM = 64 << 20
"""Bytes that all the faults of a source may take, about."""

MAX_STACKS = 256
MAX_RANKS = 65_536
MAX_TOGETHER = 4096
"""Ranks that are named of one fault."""

SURVIVED = timedelta(seconds=30)
"""For how long a service must have answered requests after a fault that did not end it."""

STEP = timedelta(seconds=60)
"""A step backwards in time that is no delay any more: somebody set the clock."""


Speaker = tuple[tuple[object, ...], "int | None"]
"""Which part a process has in a deployment, and its pid."""


@dataclass(eq=False)
class Room:
    """What is left of the memory for the faults of a source."""

    left: int = ROOM

    def take(self, fault: Fault) -> bool:
        size = _size(fault)
        if size > self.left:
            return False
        self.left -= size
        return True


def _size(fault: Fault) -> int:
    """About the bytes that a fault takes."""
    others = sum(map(_size, fault.chain)) + sum(map(_size, fault.members))
    return 1000 + 2 * len(fault.message) + 400 * len(fault.frames) + others


@dataclass(eq=False)
class FoundFault:
    """A fault of a run with what decides about its role."""

    fault: Fault
    weighed: Weighed
    order: int  # of the line that began it, over all lines of the source
    phase: str = ""
    key: tuple[object, ...] = ()
    worker: str = ""
    process: int | None = None
    named: int = 0  # order of the line that names it, 0: the same
    who: set[frozenset[str]] = field(default_factory=set)  # the ranks that reported it
    more: int = 0  # how often it was said again, besides what `fault.count` says

    def __post_init__(self) -> None:
        if self.fault.ranks:
            self.who.add(self.fault.ranks)

    @classmethod
    def of(cls, hit: Hit, line: Line, source: str) -> FoundFault:
        fault = replace(hit.fault, position=replace(hit.fault.position, source=source))
        return cls(fault, hit.weighed, line.order, line.phase, hit.key, hit.worker, hit.process)

    @property
    def source(self) -> str:
        return self.fault.position.source

    @property
    def weight(self) -> Weight:
        return self.weighed.weight


@dataclass(eq=False)
class StartStep:
    """When a phase was first said, and who said it."""

    time: datetime | None
    who: set[frozenset[str]] = field(default_factory=set)


@dataclass(eq=False)
class LogRun:
    """What is known of a run so far; `saw`, `say`, `add` tell it more."""

    source: str
    unit: str = ""
    invocation: str = ""
    room: Room = field(default_factory=Room)
    started: datetime | None = None
    ended: datetime | None = None
    stepped: bool = False  # its clock was set back, so times do not order its faults
    banners: set[str] = field(default_factory=set)
    bannered: datetime | None = None
    speaker: Speaker | None = None  # who said the last banner
    facts: dict[str, str] = field(default_factory=dict)
    ranks: set[frozenset[str]] = field(default_factory=set)
    pids: dict[int, frozenset[str]] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)  # the engine's name of a process -> pid
    phase: str = ""
    phases: dict[frozenset[str], str] = field(default_factory=dict)
    steps: dict[str, StartStep] = field(default_factory=dict)  # every phase, as it was first said
    active: bool = False  # something other than the service manager spoke
    spoke: int = 0  # order of the last line of a program
    served: datetime | None = None  # when it last answered a request
    starting: bool = False  # systemd said "Starting", so its "Started" tells of the same start
    ready: bool = False
    stopped: Line | None = None  # says that it was asked to stop
    found: dict[tuple[object, ...], FoundFault] = field(default_factory=dict)
    errors: dict[str, FoundFault] = field(default_factory=dict)  # error lines that no pattern knows, by text
    stacks: list[Snapshot] = field(default_factory=list)  # where processes stood, as they were printed
    dropped: int = 0
    times: int = 1  # how many such runs there were
    again: datetime | None = None  # when the latest of them ended

    def saw(self, line: Line) -> None:
        """Take note of a line's time and writer."""
        time = line.time
        if self.started is None:
            self.started = self.ended = time
        elif time is not None and (time.tzinfo is None) == (self.started.tzinfo is None):
            if self.ended is not None and self.ended - time > STEP:
                self.stepped = True
            self.ended = time
        pid = line.writer
        if pid is not None and self.pids.get(pid) != line.ranks and len(self.pids) < MAX_RANKS:
            if line.ranks or pid not in self.pids:
                self.pids[pid] = line.ranks
            if line.process and line.process not in self.workers:
                self.workers[line.process] = pid
        elif (
            line.process
            and pid is not None
            and line.process not in self.workers
            and len(self.workers) < MAX_RANKS
        ):
            self.workers[line.process] = pid
        if line.ranks and line.ranks not in self.ranks and len(self.ranks) < MAX_RANKS:
            self.ranks.add(line.ranks)

    def say(self, line: Line, facts: list[tuple[str, str]], phase: str, ready: bool) -> None:
        for name, value in facts:
            merge(self.facts, name, value)
        if phase:
            self.phase = phase
            step = self.steps.setdefault(phase, StartStep(line.time))
            if line.ranks and len(step.who) < MAX_TOGETHER:
                step.who.add(line.ranks)
            if len(self.phases) < MAX_RANKS:
                self.phases[line.ranks] = phase
        if ready:
            self.ready = True
            self.phases.clear()  # what the main process says of all

    def phase_at(self, line: Line) -> str:
        return self.phases.get(line.ranks) or self.phase

    def add(self, found: FoundFault, key: tuple[object, ...] = ()) -> FoundFault | None:
        """Add a fault; an equal one is counted, and its ranks join. The one that is kept, if any is."""
        fault = found.fault
        key = key or same(fault)
        known = self.found.get(key)
        if known is None:
            few = len(self.found) < FEW
            if len(self.found) < MAX_FAULTS and (self.room.take(fault) or few):
                self.found[key] = found
                return found
            self.dropped += 1
            return None
        held = known.fault
        if len(known.who) < MAX_TOGETHER:
            known.who |= found.who
        if normal(held.message) == normal(fault.message):
            known.more += fault.count + found.more
        named, again = known.named or known.order, found.named or found.order
        if known.order > found.order or named > again:
            first = held if known.order <= found.order else fault
            earlier = held if named <= again else fault
            known.fault = replace(first, count=held.count, position=earlier.position)
        known.named = min(named, again)
        if known.order > found.order:
            known.order, known.phase = found.order, found.phase
        if found.weight < known.weight:
            known.weighed = found.weighed
            known.fault = replace(known.fault, type=fault.type, message=fault.message)
        return known

    def hit(self, hit: Hit, line: Line, source: str) -> FoundFault | None:
        return self.add(FoundFault.of(hit, line, source), hit.key)

    def join(self, other: LogRun) -> None:
        """Take what another source says of the same run."""
        for name, value in other.facts.items():
            merge(self.facts, name, value)
        for key, found in other.found.items():
            self.add(found, key)
        self.errors.update(other.errors)
        self.stacks += other.stacks
        for name, step in other.steps.items():
            self.steps.setdefault(name, StartStep(step.time)).who.update(step.who)
        self.ranks |= other.ranks
        self.pids.update(other.pids)
        self.workers.update(other.workers)
        self.phase = self.phase or other.phase
        self.stopped = self.stopped or other.stopped
        self.served = self.served or other.served
        times = [time for time in (self.started, self.ended, other.started, other.ended) if time is not None]
        if len({time.tzinfo is None for time in times}) == 1:
            self.started, self.ended = min(times), max(times)

    def stood(self, snapshot: Snapshot) -> None:
        if snapshot.threads and len(self.stacks) < MAX_STACKS:
            self.stacks.append(snapshot)

    def asked_to_stop(self, line: Line) -> None:
        self.stopped = self.stopped or line

    def before_stop(self, found: FoundFault) -> bool:
        """Whether a fault came before the run was asked to stop, if it ever was."""
        stopped = self.stopped
        if stopped is None:
            return True
        one, other = found.fault.time, stopped.time
        if found.source != stopped.source and one is not None and other is not None:
            return (one.tzinfo is None) != (other.tzinfo is None) or one < other
        return found.order < stopped.order

    def outlived(self, found: FoundFault) -> bool:
        """Whether the service went on after a fault that the log does not vouch for."""
        return bool(found.fault.doubt) and found.source == self.source and found.order < self.spoke

    def survived(self, found: FoundFault) -> bool:
        """Whether requests were still answered long after a fault."""
        time, served = found.fault.time, self.served
        if time is None or served is None or (time.tzinfo is None) != (served.tzinfo is None):
            return False
        return served - time > SURVIVED

    def size(self, name: str) -> int:
        value = self.facts.get(name, "")
        return int(value) if value.isdecimal() and len(value) < 6 else 1


def same(fault: Fault) -> tuple[object, ...]:
    """Equal for one fault that several ranks report, or that is echoed by a parent process."""
    tail = tuple((frame.file, frame.line, frame.function) for frame in fault.frames[-4:])
    return (fault.kind, fault.type, normal(fault.message), tail, fault.doubt)
