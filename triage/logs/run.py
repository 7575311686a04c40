"""One run of a deployment, as its log lines are read: who took part, what failed, how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from triage.logs.facts import merge
from triage.logs.fingerprint import normal
from triage.logs.line import NO_RANKS, Line
from triage.logs.model import Fault
from triage.logs.symptoms import Hit
from triage.logs.weight import Weighed, Weight

MAX_FAULTS = 2000
"""Different faults that are kept of one run; equal ones are counted."""

MAX_RANKS = 65_536


@dataclass
class Found:
    """A fault of a run with what decides about its role."""

    fault: Fault
    weighed: Weighed
    order: int  # of the line that began it, over all lines of the source
    phase: str = ""
    key: tuple[object, ...] = ()
    worker: str = ""
    process: int | None = None
    who: set[frozenset[str]] = field(default_factory=set)  # the ranks that reported it

    def __post_init__(self) -> None:
        if self.fault.ranks:
            self.who.add(self.fault.ranks)

    @classmethod
    def of(cls, hit: Hit, line: Line, source: str) -> Found:
        fault = replace(hit.fault, position=replace(hit.fault.position, source=source))
        return cls(fault, hit.weighed, line.order, line.phase, hit.key, hit.worker, hit.process)

    @property
    def weight(self) -> Weight:
        return self.weighed.weight


@dataclass
class Run:
    source: str
    unit: str = ""
    invocation: str = ""
    first: int = 0  # order of its first line
    started: datetime | None = None
    ended: datetime | None = None
    banners: set[str] = field(default_factory=set)
    bannered: datetime | None = None
    facts: dict[str, str] = field(default_factory=dict)
    ranks: set[frozenset[str]] = field(default_factory=set)
    pids: dict[int, frozenset[str]] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)  # the engine's name of a process -> pid
    phase: str = ""
    phases: dict[frozenset[str], str] = field(default_factory=dict)
    active: bool = False  # something other than the service manager spoke
    starting: bool = False  # systemd said "Starting", so its "Started" tells of the same start
    ready: bool = False
    stopped: int | None = None  # order of the line that says that it was asked to stop
    found: dict[tuple[object, ...], Found] = field(default_factory=dict)
    errors: dict[str, Found] = field(default_factory=dict)  # error lines that no pattern knows, by text
    dropped: int = 0

    def saw(self, line: Line) -> None:
        """Take note of a line's time and writer."""
        time = line.time
        if time is not None:
            if self.started is None:
                self.started = time
            self.ended = time
        pid = line.pid if line.pid is not None else line.tag_pid
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
            if len(self.phases) < MAX_RANKS:
                self.phases[line.ranks] = phase
        self.ready = self.ready or ready

    def phase_at(self, line: Line) -> str:
        return self.phases.get(line.ranks) or self.phase

    def add(self, found: Found, key: tuple[object, ...] = ()) -> None:
        """Add a fault; an equal one is counted, and its ranks join."""
        fault = found.fault
        known = self.found.get(key or same(fault))
        if known is None:
            if len(self.found) < MAX_FAULTS:
                self.found[key or same(fault)] = found
            else:
                self.dropped += 1
            return
        held = known.fault
        known.who |= found.who
        repeated = fault.count if normal(held.message) == normal(fault.message) else 0
        first, second = (held, fault) if known.order <= found.order else (fault, held)
        known.fault = replace(first, ranks=held.ranks | fault.ranks, count=held.count + repeated)
        if known.order > found.order:
            known.order, known.phase = found.order, found.phase
        if found.weight < known.weight:
            known.weighed = found.weighed
            known.fault = replace(known.fault, type=fault.type, message=second.message)

    def hit(self, hit: Hit, line: Line, source: str) -> None:
        self.add(Found.of(hit, line, source), hit.key)

    def asked_to_stop(self, order: int) -> None:
        if self.stopped is None:
            self.stopped = order

    def name_the_dead(self) -> None:
        """Give faults that name a worker or a process number its pid and its ranks."""
        for found in self.found.values():
            fault = found.fault
            if fault.ranks or not (found.worker or found.process is not None):
                continue
            pid = self.workers.get(found.worker, fault.pid)
            ranks = self.pids.get(pid, NO_RANKS) if pid is not None else NO_RANKS
            number = found.process
            if number is None and found.worker.startswith("VllmWorker-") and found.worker[11:].isdecimal():
                number = int(found.worker[11:][:6])
            if not ranks and number is not None:
                ranks = self.ranks_of(number)
            found.fault = replace(fault, pid=pid, ranks=ranks)
            if ranks:
                found.who.add(ranks)

    def ranks_of(self, number: int) -> frozenset[str]:
        """The labels of the process with this number over all, where the layout tells: pipeline stages outside."""
        pp, tp = self.size("pp_size"), self.size("tp_size")
        if pp * tp <= number or self.size("nnodes") > 1:
            return frozenset((f"rank{number}",)) if pp * tp <= 1 and self.ranks else NO_RANKS
        labels = []
        if pp > 1:
            labels.append(f"PP{number // tp}")
        if tp > 1:
            labels.append(f"TP{number % tp}")
        return frozenset(labels)

    def size(self, name: str) -> int:
        value = self.facts.get(name, "")
        return int(value) if value.isdecimal() and len(value) < 6 else 1


def same(fault: Fault) -> tuple[object, ...]:
    """Equal for one fault that several ranks report, or that is echoed by a parent process."""
    tail = tuple((frame.file, frame.line, frame.function) for frame in fault.frames[-4:])
    return (fault.kind, fault.type, normal(fault.message), tail)
