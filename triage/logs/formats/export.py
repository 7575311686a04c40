"""journald's export form: `FIELD=value` lines, entries parted by an empty line.

A value that is not plain text is written as the field's name alone, eight bytes of little-endian
length, the bytes, and a newline.
"""

from __future__ import annotations

from collections.abc import Iterator

from triage.logs.formats import journal
from triage.logs.line import Line

MAX_REPEATS = 64
"""Values that are kept of a field that repeats in one entry."""

_MARKS = (b"__CURSOR=", b"__REALTIME_TIMESTAMP=", b"__MONOTONIC_TIMESTAMP=")


def applies(data: bytes) -> bool:
    return data[:4096].lstrip().startswith(_MARKS)


def read(data: bytes) -> Iterator[Line]:
    """One line an entry; its number is that of the MESSAGE field. Damaged parts are stepped over."""
    at, number = 0, 0
    fields: dict[str, list[str]] = {}
    where = 0
    while at < len(data):
        end = data.find(b"\n", at)
        if end < 0:
            end = len(data)
        number += 1
        raw = data[at:end]
        at = end + 1
        if not raw or raw == b"\r":
            if fields:
                yield _entry(where or number, fields)
            fields, where = {}, 0
            continue
        name, mark, value = raw.partition(b"=")
        if not mark:
            size = int.from_bytes(data[at : at + 8], "little")
            start = at + 8
            if size > len(data) - start:
                continue
            value = data[start : start + size]
            first = number
            number += data.count(b"\n", at, start + size + 1)
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
        yield _entry(where or number, fields)


def _entry(number: int, fields: dict[str, list[str]]) -> Line:
    line = Line(number, journal.message(fields.get("MESSAGE")))
    journal.fill(line, fields)
    return line
