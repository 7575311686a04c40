"""One physical line on its way through the layers of prefix that wrap it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

NO_RANKS: frozenset[str] = frozenset()

MATCH_LIMIT = 16_384
"""Characters of a line that patterns look at; the text itself is kept whole."""


Author = Literal["", "kernel", "manager", "program"]
"""Who wrote a line: the kernel, the service manager, or any other program; "" where nothing tells."""


class Line:
    """Text of one line, and what was read off its front so far.

    Each layer (`triage.logs.formats`) takes its prefix away from `text` and fills in what the prefix
    said. What an outer layer said of time and pid stands: it is one clock and one numbering for all
    processes. Class attributes are the defaults, so that a line without prefixes costs little.
    """

    cursor: str | None = None
    time: datetime | None = None
    own: datetime | None = None  # as the innermost layer says it
    dated = True  # the year of `time` was in the log
    pid: int | None = None
    tag_pid: int | None = None  # the pid that the writer's own prefix claims
    ranks: frozenset[str] = NO_RANKS
    level = ""
    identifier = ""
    process = ""  # what the engine calls the process: `EngineCore`, `Worker_PP1`
    site = ""  # where in the engine the record was made: `core.py:1512`
    host = ""
    unit = ""
    invocation = ""
    boot = ""
    mono: float | None = None  # kernel clock, seconds
    repeat = 1  # how often the writer says that it was said
    unranked = False  # SGLang's prefix was here, without a rank: no process of a rank wrote it
    head = False  # an engine's prefix was here, so a record begins
    repeating = False  # ... of a family that puts its prefix on every line of a record
    more = False  # ended in CR LF: the record goes on
    part = False  # a container runtime cut the line here
    enveloped = False  # a log system (journald, a container runtime) handed it over
    author: Author = ""  # as the layers around it tell; a service cannot make itself another
    quoted = False  # it is part of what a user sent, which the service logged
    taken = False  # it is part of a traceback or dump
    lines: Sequence[int] = ()  # of the source that it was made of, where it is more than its own
    shape = 0  # what it has in common with lines that differ in numbers alone
    gap = False  # lines before it were left out
    source = ""
    order = 0  # among all lines of all sources
    phase = ""  # of the engine's start, when it was written

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text

    @property
    def writer(self) -> int | None:
        """The pid of the process that wrote it, by the journal's account before its own."""
        return self.pid if self.pid is not None else self.tag_pid

    @property
    def kernel(self) -> bool:
        return self.author == "kernel"

    def at(self, time: datetime | None, *, dated: bool = True) -> None:
        """Set the time, unless an outer layer did."""
        if time is None:
            return
        self.own = time
        if self.time is None:
            self.time = time
            self.dated = dated

    def within(self, text: str) -> Line:
        """A line with the same surroundings and another text."""
        other = Line(self.number, text)
        other.__dict__.update(self.__dict__)
        other.text = text
        return other
