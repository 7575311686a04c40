"""A log in which nothing was recognised, read once more for words of failure in any program's language.

What is found is a guess: it counts only where nothing better stands, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from triage.common.yaml_files import load_mapping
from triage.logs.facts import facts_of, merge
from triage.logs.faults.fingerprint import fingerprint
from triage.logs.faults.frames import engine_package
from triage.logs.faults.traceback import Kind, classify, names_an_error
from triage.logs.model import Fault, Incident, LogSource, Position
from triage.logs.reading.content import BLOCK
from triage.logs.reading.line import Line
from triage.logs.reading.records import signed_lines
from triage.logs.requests import Requests, quoted_at

WORDS = Path(__file__).parent / "failure_words.yaml"
SIZE = 2 << 20
"""Bytes at the end of a source that are read again: what it died of stands there."""

MOST = 20
"""Faults that are kept, and suspicious lines that are looked through."""

BEHIND = 10
"""Lines after which a line that only may say that something failed was survived."""

JOINED = 5
"""Lines without a prefix that may go on with a message."""

LENGTH = 1000
"""Characters of a line that are looked at."""

GUESS = "no rule and no line of a program is known for it: it has the words of a failure"
SERIOUS = ("ERROR", "CRITICAL", "FATAL", "ALERT", "EMERG", "PANIC")
QUIET = ("INFO", "DEBUG", "TRACE", "NOTICE")


@dataclass(frozen=True)
class SuspiciousLine:
    """A line that looks like a failure.

    `worth` is 4 where it says that something failed and what, 3 where it says what, 2 where it says that
    something did, and 1 at a level that speaks against it.
    """

    source: str
    number: int
    text: str
    worth: int


@dataclass(frozen=True)
class SecondLook:
    """What another look found: the incident, if a line says that something failed; else the lines that come
    nearest, at most three, and how many lines were read."""

    read: int
    incident: Incident | None
    suspicious: tuple[SuspiciousLine, ...]


def second_look(sources: Sequence[LogSource]) -> SecondLook:
    """Read the end of every source for words of failure. Give it logs in which nothing was recognised."""
    read = 0
    seen: list[tuple[int, SuspiciousLine, Fault]] = []
    at: dict[int, int] = {}  # how many lines were read when the last of each worth came
    facts: dict[str, str] = {}
    for source in sources:
        for line, message in _messages(source):
            read += 1
            for name, value in facts_of(line.text[:LENGTH]):
                merge(facts, name, value)
            worth = _worth(line, message)
            if worth:
                at[worth] = read
            if worth and sum(each[0] == worth for each in seen) < MOST:
                found = _fault(line, message, source.name)
                seen.append((worth, SuspiciousLine(source.name, line.number, message[:300], worth), found))
    best = max((worth for worth, *_ in seen), default=0)
    suspicious = sorted((each for _, each, _ in seen), key=lambda each: -each.worth)[:3]
    if best < 2 or (best < 4 and read - max(at.get(worth, 0) for worth in (2, 3)) > BEHIND):
        return SecondLook(read, None, tuple(suspicious))
    faults = tuple(fault for worth, _, fault in seen if worth >= 2)
    first = next(fault for worth, _, fault in seen if worth == best)
    return SecondLook(read, _incident(first, faults, facts), tuple(suspicious))


def _incident(first: Fault, faults: tuple[Fault, ...], facts: dict[str, str]) -> Incident:
    named = replace(first, role="initiator", because=(GUESS,))
    engine = facts.get("engine") or next(filter(None, map(engine_package, first.frames)), "")
    mark = fingerprint(engine, named, ())
    times = [fault.time for fault in faults if fault.time is not None]
    return Incident(
        id=mark[:8],
        fingerprint=mark,
        started=times[0] if times else None,
        ended=times[-1] if times else None,
        initiator=named,
        faults=tuple(named if fault is first else fault for fault in faults),
        facts=facts,
    )


def _messages(source: LogSource) -> Iterator[tuple[Line, str]]:
    """Every line that has text and is no request, with the lines that go on with what it says."""
    requests = Requests()
    held: list[Line] = []
    end, skipped = _end_of(source)
    for line in signed_lines(end):
        line.number += skipped
        quoted = requests.holds(line)
        if not line.text.strip() or quoted:
            continue
        if held and _goes_on(held[0], line) and len(held) < JOINED:
            held.append(line)
            continue
        yield from _joined(held)
        held = [line]
    yield from _joined(held)


def _joined(held: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    if held:
        yield held[0], " ".join(line.text.strip() for line in held)[:LENGTH]


def _goes_on(first: Line, line: Line) -> bool:
    """Whether a line has no beginning of its own, behind one that has."""
    own = line.head or line.time != first.time or line.level or line.identifier != first.identifier
    return bool(first.head or first.time or first.level) and not own and line.text[:1] in " \t|"


def _end_of(source: LogSource) -> tuple[LogSource, int]:
    """The end of a source, from the beginning of a line on, and the lines before it."""
    size = len(source.data)
    if size <= SIZE:
        return source, 0
    start = size - SIZE
    start += source.data[start : start + BLOCK].find(b"\n") + 1
    blocks = (source.data[at : min(at + BLOCK, start)] for at in range(0, start, BLOCK))
    return replace(source, data=source.data[start:]), sum(block.count(b"\n") for block in blocks)


def _worth(line: Line, message: str) -> int:
    words = _words()
    if words["harmless"].search(message):
        return 0
    serious = line.level in SERIOUS
    if _is_exception(message):
        worth = 4
    else:
        said = words["concrete"].search(message)
        if said is not None and quoted_at(message, said.start()) and not serious:
            said = None
        reported = words["reported"].search(message) is not None
        worth = 4 if said and (serious or reported) else 3 if said else 2 if serious or reported else 0
    if line.level in QUIET or line.level.startswith("WARN"):
        return min(worth, 1)
    # what an engine says without naming a level is information
    is_information = line.head and not (line.level or line.kernel)
    return min(worth, 1) if is_information and worth < 4 else worth


def _is_exception(message: str) -> bool:
    kind, match = classify(message)
    return kind is Kind.EXCEPTION and match is not None and bool(match[2]) and names_an_error(match[1])


def _fault(line: Line, message: str, source: str) -> Fault:
    _, match = classify(message)
    named = match is not None and _is_exception(message)
    return Fault(
        kind="exception" if named else "error",
        type=match[1] if named and match else "error",
        message=match[2] if named and match else message,
        position=Position(source, line.number, line.cursor),
        time=line.time,
        pid=line.writer,
        ranks=line.ranks,
        count=line.repeat,
        cut=True,
    )


@lru_cache(maxsize=1)
def _words() -> Mapping[str, re.Pattern[str]]:
    read = load_mapping(WORDS, "words of failure")
    return {name: re.compile("|".join(listed), re.IGNORECASE) for name, listed in read.items()}
