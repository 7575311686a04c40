"""Processes that are known for certain: a pid together with the moment it started."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """One process, and never another one that got its number later. `started` is in ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Process | None:
        """The live process with that number, if there is one; a zombie is none."""
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] in "ZX" else cls(pid, int(fields[19]))

    def alive(self) -> bool:
        return Process.of(self.pid) == self

    def child(self) -> Process | None:
        """Its first child."""
        try:
            children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        except OSError:
            return None
        return Process.of(int(children[0])) if children else None

    def send(self, number: int) -> None:
        """Signal it, if it still lives."""
        with self._handle() as handle:
            if handle is not None:
                signal.pidfd_send_signal(handle, number)

    def wait(self, timeout: float) -> bool:
        """Whether it has ended within `timeout` seconds."""
        with self._handle() as handle:
            if handle is None:
                return True
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            return bool(poll.poll(timeout * 1000))

    @contextlib.contextmanager
    def _handle(self) -> Iterator[int | None]:
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            yield handle if self.alive() else None
        finally:
            os.close(handle)
