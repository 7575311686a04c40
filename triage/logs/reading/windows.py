"""Which lines of a large source are read: those around the places that tell something, the beginning, the
end, and now and then one between, so that it is known who was there and when.

A stretch between windows is left out only where no traceback can reach across it: nothing is being read,
or it is longer than anything that is being read waits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator

from triage.logs import repeats
from triage.logs.reading.content import BLOCK, Content, as_utf8, blocks, line_start, rows
from triage.logs.reading.line import Line
from triage.logs.reading.places import LONGEST, Find, finder
from triage.logs.repeats import Repeats

SMALL = 2 << 20
"""Bytes of a source that is read whole: it takes as long as a search would."""

HEAD = 1 << 19
"""Bytes at the beginning that are always read: formats and processes show themselves there."""

STEP = 1 << 18
"""Bytes from one line that is read between windows to the next."""

STRETCH = 1 << 16
"""Bytes that are searched at a time, so that they stay in the processor's cache."""

LEAD = (1 << 13, 64)
TAIL = (1 << 13, 256)
"""Bytes, and average lines, before and after a place that are read with it; whichever is more."""

PATIENCE = 2100
"""Lines after which no traceback goes on (see `streams`)."""

Span = tuple[int, int]
Shape = Callable[[bytes, bytes], int]
"""What a line has in common with those that differ in numbers alone, from the line before it and its own."""


def _places(data: Content, find: Find, at: int, shape: Shape) -> Iterator[tuple[int, int, int]]:
    """Return where something is found: from where to where it can be, and the shape of its line."""
    size, done = len(data), 0
    while at < size:
        above = min(at, 2 * repeats.LONGEST)
        block = data[at - above : at + BLOCK + LONGEST]
        for offset in range(above, min(above + BLOCK, len(block)), STRETCH):
            found = find(block[offset : offset + STRETCH + LONGEST])
            if found is None:
                start = at - above + offset
                yield start, min(start + STRETCH + LONGEST, size), 0
                continue
            for place in sorted(found):
                end = offset + place
                if at - above + end <= done:
                    continue  # in the line of the one before
                start = block.rfind(b"\n", max(end - 1 - repeats.LONGEST, 0), end - 1) + 1
                stop = block.find(b"\n", end - 1, end - 1 + repeats.LONGEST)
                if start and 0 < stop - start < repeats.LONGEST:
                    before = block[block.rfind(b"\n", 0, start - 1) + 1 : start - 1]
                    done = at - above + stop
                    yield at - above + start, done, shape(before, block[start:stop])
                else:
                    yield at - above + end - LONGEST, at - above + end, 0
        at += BLOCK


class Windows:
    """The lines of a source's windows, oldest first or from the end.

    Where lines before a window are left out, a line's number only orders it, so that nobody has to count
    what is never asked for; `number` tells the real one.
    """

    parting = b"\n"  # what parts one from the next

    def __init__(
        self, data: Content, quiet: Callable[[], bool] | None = None, known: Repeats | None = None
    ) -> None:
        """`quiet` says whether no traceback is being read; without it nothing is left out. `known` lines
        that are far from others are left out as well."""
        self._data = as_utf8(data)
        self._known = known or Repeats()
        self._first = 3 if data[:3] == b"\xef\xbb\xbf" else 0
        self._quiet = quiet
        self._starts = [0]  # of windows after a gap
        self._before = [0]  # newlines before each block
        self._given = 0
        self._searched = False

    def read_all(self) -> None:
        """Leave nothing out, whatever can be skipped."""
        self._quiet = None

    def number(self, given: int) -> int:
        """The 1-based number of a line in its source."""
        start = self._starts[max(bisect_left(self._starts, given) - 1, 0)]
        return given - start + self._newlines(start)

    def lines(self) -> Iterator[Line]:
        """Oldest first; `gap` marks the first line after those that were left out."""
        at = self._first
        for start, stop in self._spans():
            begin = at
            if start > at and self._may_skip(at, start):
                for place in range(at + STEP, start, STEP):
                    if place > at and self._tells_nothing(below := self._begin(place, at)):
                        at = yield from self._window(at, below, place + 1)
                begin = self._begin(start, at)
            self._known.settle(begin)
            at = yield from self._window(at, begin, stop)

    def _begin(self, at: int, floor: int) -> int:
        """Return where the line begins that the byte before `at` is in or ends."""
        return line_start(self._data, at, floor)

    def _shape(self, before: bytes, row: bytes) -> int:
        return self._known.shape(before, row)

    def _tells_nothing(self, start: int) -> bool:
        find = finder()
        return find is None or find(next(rows(self._data, start, start + 1))[1]) == []

    def _window(self, above: int, start: int, stop: int) -> Generator[Line, None, int]:
        gap = start > above
        if gap:
            self._starts.append(start)
            self._given = start
        before = self._data[line_start(self._data, start - 1, 0) : start - 1] if start else b""
        for begin, row, ends in rows(self._data, start, stop):
            line = Line(self._given + 1, row.decode("utf-8", "backslashreplace"))
            if gap:
                line.gap, gap = True, False
            if self._searched:
                line.shape = self._shape(before, row)
                before = row
            self._given += ends
            yield line
            start = begin + len(row) + ends
        return start

    def backward(self) -> Iterator[Line]:
        """The last line first, each with its real number."""
        below = len(self._data)
        for start, stop in reversed(list(self._spans())):
            gap = stop < below and self._may_skip(stop, below)
            if gap:
                end = min(below, self._line_end(stop))
                for place in reversed(range(end + STEP, below, STEP)):
                    if place < below:
                        below = line_start(self._data, place, end)
                        yield from self._reversed(below, below + 1, gap)
                below = end
            begin = line_start(self._data, start, self._first)
            while below > begin:
                block = line_start(self._data, max(begin, below - BLOCK), begin)
                yield from self._reversed(block, below, gap)
                below, gap = block, False

    def _line_end(self, at: int) -> int:
        return next((start + len(row) + ends for start, row, ends in rows(self._data, at, at + 1)), at)

    def _reversed(self, start: int, stop: int, gap: bool) -> Iterator[Line]:
        number = self._newlines(start) + 1
        held = []
        for _, row, ends in rows(self._data, start, stop):
            held.append(Line(number, row.decode("utf-8", "backslashreplace")))
            number += ends
        if held:
            held[-1].gap = gap
        return reversed(held)

    def _spans(self) -> Iterator[Span]:
        """The windows in order, a single one where all is to be read. What is read of one decides which
        places the next ones are around."""
        data, size = self._data, len(self._data)
        find = finder() if self._quiet is not None and size > SMALL else None
        if find is None:
            yield 0, size
            return
        self._searched = True
        line = HEAD // (data[:HEAD].count(self.parting) + 1)
        lead, tail = (min(max(least, count * line), HEAD) for least, count in (LEAD, TAIL))
        start, stop = 0, HEAD
        for begin, end, shape in _places(data, find, HEAD - LONGEST, self._shape):
            if start < stop and (begin >= stop or stop - start > BLOCK):
                yield start, stop
                start = stop
            known = self._known.knows(shape)
            if begin >= stop:
                if known:
                    self._known.passed(begin, shape)
                    continue
                start = max(begin - lead, stop)
            if not known:
                stop = max(stop, min(end + tail, size))
        if start < stop:
            yield start, stop
        if stop < size:
            yield max(size - lead, stop), size

    def _may_skip(self, start: int, stop: int) -> bool:
        if self._quiet is None or self._quiet():
            return True
        count = 0
        for block in blocks(self._data, start, stop):
            count += block.count(self.parting)
            if count > PATIENCE:
                return True
        return False

    def _newlines(self, stop: int) -> int:
        """The newlines before a byte; a block is counted once."""
        block = stop // BLOCK
        for index in range(len(self._before) - 1, block):
            self._before.append(
                self._before[-1] + self._data[index * BLOCK : (index + 1) * BLOCK].count(b"\n")
            )
        return self._before[block] + self._data[block * BLOCK : stop].count(b"\n")
