"""What a silent service is doing: a slow load works, a hang does not."""

from __future__ import annotations

import re
from dataclasses import dataclass

from triage.common.errors import UnreachableError
from triage.hosts.connection import Connection
from triage.verify.service.model import text_of

IDLE_CORES = 0.02
IDLE_READING = 1e5  # bytes/s
TICK = 100  # clock ticks a second in /proc/PID/stat: USER_HZ of every Linux that engines run on
_LOOK = """
cat /proc/[0-9]*/stat
echo =
grep -H ^read_bytes: /proc/[0-9]*/io
echo =
nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits
true
"""
_STAT = re.compile(r"^(\d+) \(.*\) (\S) (.*)$", re.MULTILINE)
_READ = re.compile(r"^/proc/(\d+)/io:read_bytes: (\d+)$", re.MULTILINE)
_GPU = re.compile(r"^\s*(\d{1,3})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Sample:
    """Sums over a process and its descendants since they began; `gpus` in percent at this moment.

    `read` is None where it may not be known: it takes the same user, or root.
    """

    at: float  # seconds
    cpu: float  # seconds
    read: int | None  # bytes from disks
    processes: int
    gpus: tuple[int, ...]


@dataclass(frozen=True)
class Activity:
    """Between two samples."""

    cores: float
    reading: float | None  # bytes/s
    gpus: tuple[int, ...]

    @property
    def idle(self) -> bool:
        return self.cores < IDLE_CORES and (self.reading or 0) < IDLE_READING and not any(self.gpus)

    def __str__(self) -> str:
        """`its processes use 3.1 cores and read 210 MB/s; GPUs at 0 %`."""
        cores = "no CPU" if self.cores < IDLE_CORES else f"{self.cores:.1f} cores"
        read = self.reading or 0
        reading = "nothing" if read < IDLE_READING else f"{read / 1e6:.0f} MB/s"
        low, high = min(self.gpus, default=0), max(self.gpus, default=0)
        gpus = f"; GPUs at {low if low == high else f'{low} to {high}'} %" if self.gpus else ""
        waiting = (
            ", as where ranks wait for each other" if self.gpus and low >= 95 and not self.reading else ""
        )
        told = "; what they read may not be known" if self.reading is None else f" and read {reading}"
        return f"its processes use {cores}{told}{gpus}{waiting}"


class Watch:
    """Looks at processes and their descendants again and again."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last: Sample | None = None
        self._pids: tuple[int, ...] = ()

    def look(self, pids: tuple[int, ...], now: float) -> Activity | None:
        """What they did since the last look; None at the first, and where that cannot be told."""
        if pids != self._pids:
            self._pids, self._last = pids, None
        if not pids:
            return None
        try:
            output = self._connection.run(("sh", "-c", _LOOK), timeout=20.0)
        except UnreachableError:
            return None
        before, self._last = self._last, sample(text_of(output.stdout), pids, now)
        if before is None or self._last is None or self._last.at <= before.at:
            return None
        seconds = self._last.at - before.at
        # what a child that has ended did is no longer in the sums
        cores = max(0.0, self._last.cpu - before.cpu) / seconds
        known = self._last.read is not None and before.read is not None
        reading = max(0, (self._last.read or 0) - (before.read or 0)) / seconds if known else None
        return Activity(cores, reading, tuple(map(max, before.gpus, self._last.gpus)))


def sample(text: str, pids: tuple[int, ...], now: float) -> Sample | None:
    """What the host printed, for processes and their descendants; None where none of them is there."""
    stats, _, rest = text.partition("\n=\n")
    reads, _, gpus = rest.partition("=\n")
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for found in _STAT.finditer(stats):
        fields = found[3].split()
        if len(fields) > 11 and fields[0].isdecimal() and fields[10].isdecimal() and fields[11].isdecimal():
            parents[int(found[1])] = int(fields[0])
            ticks[int(found[1])] = int(fields[10]) + int(fields[11])
    family = _family([pid for pid in pids if pid in ticks], parents)
    if not family:
        return None
    read = [int(found[2]) for found in _READ.finditer(reads) if int(found[1]) in family]
    cpu = sum(ticks[member] for member in family) / TICK
    return Sample(
        now,
        cpu,
        sum(read) if read else None,
        len(family),
        tuple(int(found[1]) for found in _GPU.finditer(gpus)),
    )


def _family(pids: list[int], parents: dict[int, int]) -> set[int]:
    """The processes and their descendants."""
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    family: set[int] = set()
    waiting = [*pids]
    while waiting:
        member = waiting.pop()
        if member not in family:
            family.add(member)
            waiting += children.get(member, ())
    return family
