"""What a log turns into: records, faults, incidents. Plain immutable values.

All text in them is as it stood in the log, without terminal escapes and without the prefixes that
were read into other fields. It is still untrusted: whoever prints it must escape it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Literal

from triage.logs.reading.content import Content

Role = Literal["initiator", "victim", "teardown", "benign"]
FaultKind = Literal["exception", "error", "signal", "service", "kernel", "native"]

NO_FACTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Position:
    """The position of a record in its source: the 1-based line, and journald's cursor if there is one."""

    source: str
    line: int
    cursor: str | None = None


@dataclass(frozen=True)
class Record:
    """One log entry. `ranks` are unordered labels such as `PP3`, `TP0`; `text` may span lines."""

    time: datetime | None  # aware when the source tells the zone (journald, containers), naive otherwise
    pid: int | None
    ranks: frozenset[str]
    level: str  # upper case, "" when the source has none
    identifier: str  # who wrote it: `systemd`, `kernel`, a process title, "" when not known
    text: str
    position: Position


@dataclass(frozen=True)
class Frame:
    """One line of a traceback; `code` is the source line that was printed, "" when there was none."""

    file: str
    line: int
    function: str
    code: str = ""


@dataclass(frozen=True)
class Fault:
    """An exception with its frames and chain, or an error without one.

    `position` is the line that names the exception, or the error line itself; `time` is that of the
    record that introduced it. `kind` and `type`:

    exception   the class as printed, `pydantic_core._pydantic_core.ValidationError`
    error       an error line: its kind in words, `argument-error`, `watchdog-timeout`, ...
    signal      how a child died: `SIGKILL`, `SIGSEGV`, `exit-code`, `died`
    service     systemd's result: `exit-code`, `signal`, `oom-kill`, `timeout`, `exec`, ...
    kernel      `oom-kill`, `Xid`, `segfault`, ...
    native      a native abort: what was thrown, the signal, `assertion`

    `frames` are outermost first. `chain` holds the exceptions that led to this one, nearest first;
    `link` says how: "cause" (raise from) or "context" (while handling). `header` is the text of the
    record that introduced it. `frame` is the culprit: the innermost frame that is not merely a
    library accessor.
    """

    kind: FaultKind
    type: str  # `IndexError`, `SIGKILL`, `oom-kill`, ...
    message: str
    position: Position
    time: datetime | None = None
    pid: int | None = None
    ranks: frozenset[str] = frozenset()
    header: str = ""
    frames: tuple[Frame, ...] = ()
    frame: Frame | None = None
    chain: tuple[Fault, ...] = ()
    link: Literal["", "cause", "context"] = ""
    members: tuple[Fault, ...] = ()  # of an exception group, nested groups flattened
    role: Role = "victim"
    because: tuple[str, ...] = ()  # the reasons for the role
    doubt: str = ""  # why the log does not vouch for it: who wrote the line is not told
    count: int = 1
    cut: bool = False  # head or tail is missing


@dataclass(frozen=True)
class Phase:
    """A step that a run logged: when it was first said, and by which ranks, in order."""

    name: str
    time: datetime | None
    ranks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Incident:
    """The faults of one run of a deployment.

    `initiator` is None when the log cannot decide; `candidates` then lists who it could be.
    `facts` are what the log itself says of the deployment: `pp_size`, `attention_backend`,
    `kv_pool` (the class that allocated the KV cache), `version`, ... as strings.
    """

    id: str  # short, derived from the fingerprint and the start of the run
    fingerprint: str
    started: datetime | None
    ended: datetime | None
    initiator: Fault | None
    faults: tuple[Fault, ...]  # in order of appearance, the initiator among them
    candidates: tuple[Fault, ...] = ()
    ranks: frozenset[str] = frozenset()  # all that are known to exist
    silent_ranks: tuple[str, ...] = ()  # known to exist, and said nothing of the fault, in order
    facts: Mapping[str, str] = field(default_factory=lambda: NO_FACTS)
    phase: str = ""  # the last phase that the engine logged before the initiator
    phases: tuple[Phase, ...] = ()  # all of them, as they were first logged
    count: int = 1  # identical runs folded into this one


@dataclass(frozen=True)
class LogReading:
    """What sources tell: incidents, oldest first, by unit the messages that journald did not keep, and in
    words what shows that the last run did not fail."""

    incidents: tuple[Incident, ...]
    lost: Mapping[str, int]
    health: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A file that is a part of a source."""

    name: str
    before: int  # lines of the source that end before it
    first: int  # the first line of the source that begins in it


@dataclass(frozen=True)
class LogSource:
    """One source of log lines: bytes as they came, and a name for positions.

    `data` of a large log is `Stored`: it lies in a file, and is sliced like bytes.
    `format` names the layers of prefix (`triage.logs.formats.NAMES`), outermost first and parted by commas;
    "" leaves it to what the lines look like.
    """

    name: str
    data: Content
    partial: str = ""
    format: str = ""
    missing: str = ""  # why there is no data
    last_runs: int = 0  # only so many of its runs count, the last ones; 0: all
    parts: tuple[Part, ...] = ()  # the files that it was put together from, oldest first; (): it is one
    notes: tuple[str, ...] = ()  # which other files it was read from, and which could not be

    def place(self, line: int) -> tuple[str, int]:
        """The file in which a line of the source begins, and its number there."""
        for part in reversed(self.parts):
            if line >= part.first:
                return part.name, line - part.before
        return self.name, line
