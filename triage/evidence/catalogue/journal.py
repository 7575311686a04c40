"""What journald kept. Fetched in export form, which is cheap for the host and loses nothing.

    $ journalctl --no-pager --all --output=export --output-fields=MESSAGE,... _SYSTEMD_INVOCATION_ID=f9d3...
    __CURSOR=s=97f3d003b94441c0ab00e47d3acb58ba;i=df;b=...
    __REALTIME_TIMESTAMP=1795969341368758
    _PID=75
    MESSAGE=[2026-11-29 16:22:57 PP3] Scheduler hit an exception: Traceback (most recent call last):

A value with control characters stands as `FIELD`, a newline, its length as 64 bits little-endian, and
its bytes. The canonical form is one JSON object a line, with `MESSAGE` always a string.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import ClassVar, TypeVar

from triage.common.json import parse_json
from triage.evidence.model import MEBI, Query, Unanswered, failure_of
from triage.hosts.connection import Output

T = TypeVar("T")

FIELDS = (
    "__CURSOR",
    "__REALTIME_TIMESTAMP",
    "_BOOT_ID",
    "_TRANSPORT",
    "_PID",
    "PRIORITY",
    "SYSLOG_IDENTIFIER",
    "_COMM",
    "MESSAGE",
    "_LINE_BREAK",
    "UNIT",
    "INVOCATION_ID",
    "USER_UNIT",
    "USER_INVOCATION_ID",
    "_SYSTEMD_INVOCATION_ID",
)
NEEDS = "membership in group systemd-journal, or root"
JOURNAL_LIMIT = 256 * 1024 * 1024  # bytes; three times that in memory
JOURNAL_TIMEOUT = 120.0  # seconds

# Message ids of systemd, from its catalogue.
COREDUMP = "fc2e22bc6ee647b6b90729ab34a250b1"
STARTED = "39f53479d3a045ac8e11786248231fbf"
START_FAILED = "be02cf6855d2428ba40df7e9d022f03d"
SUCCEEDED = "7ad2d189f7e94e70a38c781354912448"
FAILED = "d9b373ed55a64feb8242e02dbe79a49c"

_JOURNALCTL = ("journalctl", "--no-pager", "--all", "--output=export")
_FIELDS_OPTION = "--output-fields"  # of systemd 236 and newer; without it all fields come
_OF_RUNS = ("MESSAGE", "MESSAGE_ID", "INVOCATION_ID", "USER_INVOCATION_ID", "UNIT_RESULT")
# Systemd 247, 252 and 257: "... resulted in X being skipped.", "X was skipped because ...", "X skipped, ..."
_SKIPPED = re.compile(
    r"^(?!Started |Finished ).* (being|was) skipped\b|^\S+ skipped, |^Assertion failed for "
)
_OUTSIDE_RUN = 10_000_000  # microseconds after the run's last line in which its core dump is told


def not_in_vain(text: str, output: Output) -> str:
    """The text. Raises Unanswered for much output without a line of a journal: that is not an empty one."""
    if output.cut == "bytes" and not text:
        raise Unanswered(f"it printed {len(output.stdout) >> 20} MiB and more, and no entry of a journal")
    return text


@dataclass(frozen=True)
class _Journalctl(Query[T]):
    """A question that journalctl answers, also one that cannot leave out fields."""

    privilege: ClassVar[str] = NEEDS

    def lesser(self) -> tuple[str, ...]:
        return tuple(word for word in self.argv() if not word.startswith(_FIELDS_OPTION))

    def falls_short(self, output: Output) -> bool:
        return bool(output.code) and _FIELDS_OPTION.encode() in output.stderr


@dataclass(frozen=True)
class Journal(_Journalctl[str]):
    """All lines of one run of a unit: its own, systemd's on it, and its core dumps.

    Without an invocation, whatever journald has of the unit, its newest 100,000 lines. The value is
    the canonical text: JSON lines.
    """

    name: ClassVar[str] = "journal"
    purpose: ClassVar[str] = "read what the service logged in its run that failed"
    absence: ClassVar[str] = "the command ends: without a log there is no diagnosis"
    timeout: ClassVar[float] = JOURNAL_TIMEOUT
    limit: ClassVar[int] = JOURNAL_LIMIT

    unit: str
    invocation: str = ""

    def argv(self) -> tuple[str, ...]:
        fields = f"--output-fields={','.join((*FIELDS[2:], 'COREDUMP_UNIT'))}"
        return (*_JOURNALCTL, fields, *self.matches())

    def matches(self) -> tuple[str, ...]:
        if self.invocation:
            return run_matches(self.unit, self.invocation)
        unit = (f"_SYSTEMD_UNIT={self.unit}", "+", "_PID=1", f"UNIT={self.unit}")
        return ("--lines=100000", *unit, "+", *_dumps(self.unit))

    def decode(self, output: Output) -> str:
        return not_in_vain(json_lines(self.told(_read(output))), output)

    def told(self, found: Iterable[dict[str, bytes]]) -> Iterable[dict[str, bytes]]:
        """What of the entries counts."""
        return of_the_run(found) if self.invocation else found

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class KernelLog(_Journalctl[str]):
    """Kernel messages between two moments, in seconds since the epoch, of any boot. Canonical text."""

    name: ClassVar[str] = "kernel-log"
    purpose: ClassVar[str] = "see out-of-memory kills, GPU errors (Xid) and segfaults"
    absence: ClassVar[str] = "no OOM kill and no Xid is ruled out: what rests on that stays unproven"
    timeout: ClassVar[float] = JOURNAL_TIMEOUT
    limit: ClassVar[int] = 32 * MEBI

    since: int
    until: int

    def argv(self) -> tuple[str, ...]:
        fields = f"--output-fields={','.join(FIELDS[2:])}"
        span = (f"--since=@{self.since}", f"--until=@{self.until}")
        return (*_JOURNALCTL, fields, *span, "_TRANSPORT=kernel")

    def decode(self, output: Output) -> str:
        return json_lines(_read(output))

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class JournalRun:
    """One run of a unit. `ended` and `result` are "" while it goes on, or where that was not kept.

    Without an invocation it is none: systemd `skipped` the unit, for what these words tell.
    """

    invocation: str
    started: str = ""  # ISO 8601
    ended: str = ""
    result: str = ""  # `success`, or systemd's Result
    skipped: str = ""


@dataclass(frozen=True)
class UnitRuns(_Journalctl[tuple[JournalRun, ...]]):
    """The latest runs of a unit, oldest first, from what systemd said of them. The last one may be none: a
    start that was skipped since."""

    name: ClassVar[str] = "unit-runs"
    purpose: ClassVar[str] = "find the run that failed, also after systemd forgot or restarted the unit"
    absence: ClassVar[str] = "of a unit that restarts, the run that goes on is taken for the one that failed"
    limit: ClassVar[int] = MEBI

    unit: str

    def argv(self) -> tuple[str, ...]:
        fields = f"--output-fields={','.join(_OF_RUNS)}"
        ids = (f"MESSAGE_ID={each}" for each in (STARTED, START_FAILED, SUCCEEDED, FAILED))
        return (*_JOURNALCTL, fields, "--lines=100", *self.matches(), *ids)

    def matches(self) -> tuple[str, ...]:
        return ("_PID=1", f"UNIT={self.unit}")

    def decode(self, output: Output) -> str:
        return json_lines(_read(output), ("__REALTIME_TIMESTAMP", *_OF_RUNS))

    def parse(self, text: str) -> tuple[JournalRun, ...]:
        runs: dict[str, JournalRun] = {}
        skipped = ""
        for entry in entries(text):
            invocation = entry.get("INVOCATION_ID", "") or entry.get("USER_INVOCATION_ID", "")
            run = runs.get(invocation, JournalRun(invocation))
            at, what = _iso(entry.get("__REALTIME_TIMESTAMP", "")), entry.get("MESSAGE_ID", "")
            message = entry.get("MESSAGE", "")
            skipped = message.rstrip(".") if _SKIPPED.search(message) else ""
            if skipped:
                continue
            if what == STARTED:
                runs[invocation] = JournalRun(invocation, at, run.ended, run.result)
            else:
                result = "success" if what == SUCCEEDED else entry.get("UNIT_RESULT", run.result)
                runs[invocation] = JournalRun(invocation, run.started, at, result)
        runs.pop("", None)
        return (*runs.values(), *([JournalRun("", skipped=skipped)] if skipped else []))


def entries(text: str) -> Iterator[Mapping[str, str]]:
    """The entries of canonical text. Lines that are none are left out."""
    for line in text.split("\n"):
        if line:
            try:
                entry = parse_json(line)
            except ValueError:
                continue
            if isinstance(entry, dict):
                yield {str(name): str(value) for name, value in entry.items()}


def read_export(data: bytes) -> Iterator[dict[str, bytes]]:
    """Entries of journald's export form. An entry that was cut short at the end is left out.

    A field that repeats keeps all its values, parted by newlines.
    """
    entry: dict[str, bytes] = {}
    at, size = 0, len(data)
    while at < size:
        end = data.find(b"\n", at)
        if end < 0:
            return
        line = data[at:end]
        at = end + 1
        if not line:
            if entry:
                yield entry
            entry = {}
            continue
        name, equals, value = line.partition(b"=")
        if not equals:
            if size - at < 8:
                return
            (length,) = struct.unpack_from("<Q", data, at)
            if length > size - at - 8:
                return
            value = data[at + 8 : at + 8 + length]
            at += 8 + length + 1
        key = name.decode("ascii", "replace")
        entry[key] = entry[key] + b"\n" + value if key in entry else value
    if entry:
        yield entry


def run_matches(unit: str, invocation: str) -> tuple[str, ...]:
    """What journalctl matches for one run: its own lines, systemd's and journald's on it, and core dumps of
    the unit."""
    fields = ("_SYSTEMD_INVOCATION_ID", "INVOCATION_ID", "OBJECT_SYSTEMD_INVOCATION_ID")
    run = (word for field in fields for word in (f"{field}={invocation}", "+"))
    return (*run, *_dumps(unit))


def _dumps(unit: str) -> tuple[str, ...]:
    return (f"MESSAGE_ID={COREDUMP}", f"COREDUMP_UNIT={unit}")


def check(output: Output) -> None:
    """Raises Unanswered when the command failed, or was not allowed to see the system's journal."""
    if b"insufficient permissions" in output.stderr or b"not seeing messages" in output.stderr:
        raise Unanswered(f"the user may not read the system's journal; it takes {NEEDS}")
    if output.code != 0 and not output.cut:
        raise Unanswered(failure_of(output))


def _read(output: Output) -> Iterator[dict[str, bytes]]:
    check(output)
    return read_export(output.stdout)


def of_the_run(found: Iterable[dict[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """Entries without the core dumps of other runs: they are matched by unit alone."""
    last = 0
    for entry in found:
        at = int(entry.get("__REALTIME_TIMESTAMP", b"0"))
        if "COREDUMP_UNIT" in entry:
            if last and at <= last + _OUTSIDE_RUN:
                yield entry
            continue
        last = at
        yield entry


def json_lines(found: Iterable[dict[str, bytes]], fields: tuple[str, ...] = FIELDS) -> str:
    quote = json.encoder.encode_basestring  # of a whole object json.dumps would take three times as long
    return "".join(
        "{"
        + ", ".join(
            [
                f'"{name}": {quote(entry[name].decode("utf-8", "backslashreplace"))}'
                for name in fields
                if name in entry
            ]
        )
        + "}\n"
        for entry in found
    )


def _iso(microseconds: str) -> str:
    if not microseconds.isdecimal():
        return ""
    return datetime.fromtimestamp(int(microseconds) / 1e6, timezone.utc).isoformat(timespec="seconds")
