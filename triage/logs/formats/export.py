"""journald's forms of several lines an entry, export and pretty JSON.

Export: `FIELD=value` lines, entries parted by an empty line.

A value that is not plain text is written as the field's name alone, eight bytes of little-endian
length, the bytes, and a newline. Pretty JSON: an object over several lines, between `{` and `}` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from triage.logs.content import LINE_LIMIT, Content, blocks, rows
from triage.logs.formats import journal, structured
from triage.logs.line import Line

MAX_ENTRY = 16 << 20
"""Bytes of one pretty entry."""

MAX_REPEATS = 64
"""Values that are kept of a field that repeats in one entry."""

_PRETTY = re.compile(rb'\{[ \t]*\r?\n[ \t]*"[\w@]{1,80}" ?:')
_MARKS = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=", b"__MONOTONIC_TIMESTAMP=")


def reader(data: Content, format: str = "") -> Callable[[Content], Iterator[Line]] | None:
    """What reads this source, if it has entries of several lines."""
    if format:
        return {"journal-export": read, "journal-pretty": read_pretty}.get(format.partition(",")[0])
    start = data[:4096].lstrip()
    if start.startswith(_MARKS):
        return read
    return read_pretty if _PRETTY.match(start) else None


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


def read(data: Content) -> Iterator[Line]:
    """One line an entry; its number is that of the MESSAGE field. Damaged parts are stepped over."""
    at, number, begin = 0, 0, 1
    fields: dict[str, list[str]] = {}
    where = 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            end = len(data)
        number += 1
        raw = data[at : min(end, at + LINE_LIMIT)]
        at = end + 1
        if not raw or raw == b"\r":
            if fields:
                yield _entry(where or number, fields, range(begin, number + 1))
            fields, where, begin = {}, 0, number + 1
            continue
        name, mark, value = raw.partition(b"=")
        if not mark:
            size = int.from_bytes(data[at : at + 8], "little")
            start = at + 8
            if size > len(data) - start:
                continue
            value = data[start : start + min(size, LINE_LIMIT)]
            first = number
            number += sum(block.count(b"\n") for block in blocks(data, at, start + size + 1))
            at = start + size + 1
        else:
            first = number
        key = name.decode("ascii", "replace")
        if key == "MESSAGE":
            where = first
        text = value.decode("utf-8", "backslashreplace")
        held = fields.setdefault(key, [])
        if len(held) < MAX_REPEATS:
            held.append(text)
    if fields:
        yield _entry(where or number, fields, range(begin, number + 1))


def _entry(number: int, fields: dict[str, list[str]], lines: range) -> Line:
    line = Line(number, journal.message(fields.get("MESSAGE")))
    line.lines = lines
    journal.fill(line, fields)
    return line
