"""Lines that a terminal or a ticket system broke at its width, joined again.

    (Worker_TP1 pid=77) ERROR 08-13 15:22:52 [multiproc_executor.py:671]   File "/op
    t/vllm/lib/python3.12/site-packages/vllm/model_executor/layers/linear.py", line
     1301, in weight_loader

That a log is broken so is believed only where a frame of a traceback is, and no line is longer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from triage.logs.faults.traceback import names_an_error
from triage.logs.reading.content import Content, as_utf8
from triage.logs.reading.line import Line

LIMIT = 2 << 20
"""Bytes of a log that somebody could have pasted."""

WIDTHS = range(40, 400)
MAX_ROWS = 64
"""Rows that one line is broken into."""

MIN_FULL = 3
"""Different rows that end just at the width, a frame among them, which tell it as surely as a torn frame."""

_TORN = re.compile(rb'File(?: "[^"\n]*(?:",(?: line(?: \d{1,9}(?:,(?: in)?)?)?)?)?)?[ \r]*\n')
_FRAME = re.compile(r'File "[^"\[]{0,1024}", line \d{1,9}, in \S')
_BEGINS = re.compile(r"\s*$|\s{2}|Traceback \(most")


@dataclass(frozen=True)
class Width:
    """Columns after which lines were broken: anywhere, or `between` words."""

    columns: int
    between: bool

    def glue(self, row: str, following: str) -> str | None:
        """What stood where a line was broken after `row`; None if it was not."""
        if self.between:
            word = following.partition(" ")[0]
            return " " if len(row) + 1 + len(word) > self.columns else None
        if len(row) == self.columns:
            return ""
        if len(row) == self.columns - 1:  # the space at its end was stripped
            return "" if following.startswith(" ") else " "
        return None


def width_of(data: Content) -> Width | None:
    """The width at which the lines of a log were broken; None if they are whole."""
    if len(data) > LIMIT:
        return None
    raw = bytes(as_utf8(data))
    if b"File" not in raw:
        return None
    torn = list(islice(_TORN.finditer(raw), MAX_ROWS))
    rows = [row.rstrip("\r") for row in raw.decode("utf-8", "backslashreplace").split("\n")]
    anywhere = Width(max(map(len, rows)), between=False)
    between = Width(max((len(row) for row in rows if " " in row.strip()), default=0), between=True)
    for width in (anywhere, between):
        if width.columns in WIDTHS and any(_proves(raw, match, width) for match in torn):
            return width
    return anywhere if anywhere.columns in WIDTHS and _fill(rows, anywhere.columns) else None


def _fill(rows: list[str], columns: int) -> bool:
    """Whether so many rows are just as long as the longest that it is no chance."""
    full = {
        row
        for row, following in pairwise(rows)
        if len(row) == columns and row[:10] != following[:10] and not _BEGINS.match(following)
    }
    return len(full) >= MIN_FULL and any('File "' in row for row in full)


def _proves(raw: bytes, torn: re.Match[bytes], width: Width) -> bool:
    """Whether the rows from a torn frame on give a whole one."""
    start = raw.rfind(b"\n", 0, torn.start()) + 1
    text = raw[start : torn.end() + MAX_ROWS * width.columns].decode("utf-8", "backslashreplace")
    joined, *rows = (row.rstrip("\r") for row in text.split("\n")[:MAX_ROWS])
    last = joined
    for row in rows:
        glue = width.glue(last, row)
        if glue is None:
            return False
        joined, last = joined + glue + row, row
        if _FRAME.search(joined):
            return True
    return False


def whole_lines(broken: Iterable[Line], width: Width, peel: Callable[[Line], None]) -> Iterator[Line]:
    """The lines as they were; each has the number of its first row."""
    held: Line | None = None
    last, numbers = "", [0]
    for line in broken:
        line.text = line.text.rstrip("\r")
        if held is not None and len(numbers) < MAX_ROWS and not _begins(line, peel):
            glue = width.glue(last, line.text)
            if glue is not None:
                held.text += glue + line.text
                numbers.append(line.number)
                held.lines, last = numbers, line.text
                continue
        if held is not None:
            yield held
        held, last, numbers = line, line.text, [line.number]
    if held is not None:
        yield held


def _begins(line: Line, peel: Callable[[Line], None]) -> bool:
    """Whether a row is the first one of its line."""
    text = line.text
    if _BEGINS.match(text) or (": " in text and names_an_error(text)):
        return True
    bare = line.within(text)
    peel(bare)
    return bare.text != text
