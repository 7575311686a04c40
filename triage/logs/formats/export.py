"""journald's forms of several lines an entry, export and pretty JSON.

Export: `FIELD=value` lines, entries parted by an empty line.

A value that is not plain text is written as the field's name alone, eight bytes of little-endian
length, the bytes, and a newline. Pretty JSON: an object over several lines, between `{` and `}` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from triage.logs.formats import journal, structured
from triage.logs.reading.content import LINE_LIMIT, Content, blocks, rows
from triage.logs.reading.line import Line

MAX_ENTRY = 16 << 20
"""Bytes of one entry that are read."""

MAX_REPEATS = 64
"""Values that are kept of a field that repeats in one entry."""

_PRETTY = re.compile(rb'\{[ \t]*\r?\n[ \t]*"[\w@]{1,80}" ?:')
_NAME = re.compile(rb"[A-Z0-9_]+")
_MARKS = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=", b"__MONOTONIC_TIMESTAMP=")


def is_export(data: Content, format: str = "") -> bool:
    if format:
        return format.partition(",")[0] == "journal-export"
    return data[:4096].lstrip().startswith(_MARKS)


def reader(data: Content, format: str = "") -> Callable[[Content], Iterator[Line]] | None:
    """What reads a source of pretty entries, if it is one."""
    if format:
        return read_pretty if format.partition(",")[0] == "journal-pretty" else None
    return read_pretty if _PRETTY.match(data[:4096].lstrip()) else None


def read_pretty(data: Content) -> Iterator[Line]:
    """One line an entry; its number is that of the MESSAGE. What is no such object is stepped over."""
    held: list[bytes] = []
    size = where = 0
    number = 1
    for _, row, ends in rows(data, 0, len(data)):
        bare = row.strip()
        if bare == b"{":
            held, size, where = [], 0, number
        elif bare.startswith(b'"MESSAGE"'):
            where = number
        held.append(row)
        size += len(row)
        if bare in (b"}", b"},") or size > MAX_ENTRY:
            line = Line(where, b"".join(held).decode("utf-8", "backslashreplace").rstrip(", "))
            line.lines = range(number - len(held) + 1, number + 1)
            held, size = [], 0
            if structured.peel(line):
                yield line
        number += ends


def entries(data: Content, at: int = 0, number: int = 0) -> Iterator[tuple[Line, int, int]]:
    """Entries from the one on that begins at a byte, behind so many lines.

    Of each a line, with the number of its MESSAGE; where the next entry begins, and behind how many lines.
    Damaged parts are stepped over.
    """
    begin, where, size = number + 1, 0, 0
    fields: dict[str, list[str]] = {}
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            end = len(data)
        number += 1
        raw = data[at : min(end, at + LINE_LIMIT)]
        at = end + 1
        if not raw or raw == b"\r":
            if fields:
                yield _entry(where or number, fields, range(begin, number + 1)), at, number
            fields, where, size, begin = {}, 0, 0, number + 1
            continue
        name, mark, value = raw.partition(b"=")
        first = number
        if not mark:
            behind = value_end(data, at) if _NAME.fullmatch(name) else at
            if behind == at:
                continue
            value = data[at + 8 : min(behind - 1, at + 8 + LINE_LIMIT)]
            number += sum(block.count(b"\n") for block in blocks(data, at, behind))
            at = behind
        key = name.decode("ascii", "replace")
        if key == "MESSAGE":
            where = first
        if size < MAX_ENTRY and len(held := fields.setdefault(key, [])) < MAX_REPEATS:
            held.append(value.decode("utf-8", "backslashreplace"))
            size += len(raw) + len(value)
    if fields:
        yield _entry(where or number, fields, range(begin, number + 1)), len(data), number


def value_end(data: Content, at: int) -> int:
    """Where a line begins behind the value whose length stands at a byte; there where it cannot be one."""
    size = int.from_bytes(data[at : at + 8], "little")
    return at + 8 + size + 1 if size <= len(data) - at - 8 else at


def _entry(number: int, fields: dict[str, list[str]], lines: range) -> Line:
    line = Line(number, journal.message(fields.get("MESSAGE")))
    line.lines = lines
    journal.fill(line, fields)
    return line
