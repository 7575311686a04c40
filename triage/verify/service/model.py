"""What verification needs of a service: its state, its restart, and the log of one run of it."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Protocol

from triage.hosts.connection import Output

MAX_LINE = 64 * 1024  # bytes; the rest of a longer line is dropped


@dataclass(frozen=True)
class ServiceState:
    """The state of a service at one moment.

    `run` names one start of it: systemd's InvocationID, or `pid:birth` of a process; "" before the
    first. `active` is systemd's ActiveState. `pid` is that of what starts it, while that is all there is.
    `pending`: its manager still works on a start or a stop.
    """

    active: str
    run: str
    pid: int | None
    detail: str = ""  # in words, e.g. "failed, result signal, status 9/KILL"
    pending: bool = False
    restarting: bool = False  # dead, and about to be started again by its manager
    members: tuple[int, ...] = ()  # all that runs of it, where none of them is known as the main process

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.pid,) if self.pid else self.members

    @property
    def dead(self) -> bool:
        return self.restarting or self.active in ("failed", "inactive")


class Service(Protocol):
    """What verification needs of a service, whatever runs it."""

    @property
    def name(self) -> str: ...

    def state(self) -> ServiceState:
        """Raises UnreachableError when it cannot be told."""
        ...

    def restart(self) -> None:
        """Ask for a new run, without waiting for it to be ready.

        Raises RefusedError when that is not allowed, UnreachableError when it fails.
        """
        ...

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        """The log of one run from its first byte on, as it comes; b"" at least once a second.

        Ends at `timeout` seconds, or at once where the log cannot be read.
        """
        ...


def lines_of(chunks: Iterator[bytes]) -> Iterator[tuple[str, ...]]:
    """The lines that each chunk completes: of any encoding, each at most MAX_LINE bytes long."""
    rest = bytearray()
    try:
        for chunk in chunks:
            *whole, last = chunk.split(b"\n")
            lines = []
            for part in whole:
                rest += part[: MAX_LINE - len(rest)]
                lines.append(text_of(bytes(rest)))
                rest.clear()
            rest += last[: MAX_LINE - len(rest)]
            yield tuple(lines)
    finally:
        if isinstance(chunks, Generator):
            chunks.close()  # ends the command behind it


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def refused(output: Output) -> bool:
    """Whether a command failed for lack of rights."""
    denial = rb"authentication required|access denied|permission denied|sudo:|not permitted"
    return bool(re.search(denial, output.stderr, re.IGNORECASE))
