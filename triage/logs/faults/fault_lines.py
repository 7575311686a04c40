"""Errors that are one line: what programs say when they fail, and what it means. Plain values.

What they say is data, one file a program or family in `knowledge`; `line_files` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from triage.logs.faults.weight import Weighed, Weight
from triage.logs.model import Fault, FaultKind, Position
from triage.logs.reading.line import NO_RANKS, Line

MAX_MESSAGE = 4000

UNSIGNED = "the log does not tell who wrote this line: text of a request can look the same"


@dataclass(frozen=True)
class Hit:
    """A fault that one line tells, before anything is known of its run.

    `key` is what makes two lines tell of the same event, () when only equality does. The line may name
    the process that it tells of: by the engine's name (`worker`) or its number over all processes.
    """

    fault: Fault
    weighed: Weighed
    key: tuple[object, ...] = ()
    worker: str = ""
    process: int | None = None


Witness = Literal["", "kernel", "manager", "unsigned"]
"""Who can say something: `unsigned` is a shell or `systemctl show`, which never has an engine's prefix."""

_WITNESSES: dict[str, Witness] = {"kernel": "kernel", "service": "manager"}

Reader = Callable[["FaultLine", Line, "re.Match[str]"], "Hit | None"]


@dataclass(frozen=True)
class FaultLine:
    """What a line says that holds `needle`, if `pattern` matches there (or from the line's beginning).

    Without a pattern the needle is enough. `read` names what reads more off the match than the line's text.
    What only the kernel or the service manager can know is believed of no other program; of a line that
    nobody signed it is taken with doubt, where it is the whole line.
    """

    needle: str
    pattern: str
    kind: FaultKind
    type: str
    weight: Weight
    because: str
    read: str = ""  # of READERS in `readers`
    inside: bool = False  # the pattern begins at the needle
    by: Witness = ""  # where its kind does not say so
    alone: str = ""  # how a line begins that has this inside and no prefix

    @property
    def witness(self) -> Witness:
        return self.by or _WITNESSES.get(self.kind, "")

    def hit(self, line: Line, type: str = "", message: str = "") -> Hit:
        own = self.kind not in ("kernel", "service")  # these speak of others
        fault = Fault(
            kind=self.kind,
            type=type or self.type,
            message=(message or line.text.strip())[:MAX_MESSAGE],
            position=Position("", line.number, line.cursor),
            time=line.time,
            pid=line.writer if own else None,
            ranks=line.ranks if own else NO_RANKS,
            count=line.repeat,
        )
        return Hit(fault, Weighed(self.weight, self.because))


compiled = lru_cache(maxsize=None)(re.compile)


def doubted(hit: Hit) -> Hit:
    """Return the hit as told by a line of which nobody knows who wrote it."""
    key = (*hit.key, UNSIGNED) if hit.key else ()
    return replace(hit, fault=replace(hit.fault, doubt=UNSIGNED), key=key)
