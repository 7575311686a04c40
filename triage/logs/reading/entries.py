"""Which entries of a large journal in export form are read: those that `windows` chooses, whole.

A value that is not plain text can hold anything, also what looks like the beginning of an entry. So where
nothing is read, too, a walk leads from one such value to the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator

from triage.logs.formats import export
from triage.logs.model import LogSource
from triage.logs.reading.content import BLOCK
from triage.logs.reading.line import Line
from triage.logs.reading.windows import Windows
from triage.logs.repeats import Repeats

_NAME = re.compile(rb"[A-Z0-9_]+\n")
_NEXT_NAME = re.compile(rb"\n[A-Z0-9_]+\n")


def windows_of(
    source: LogSource, quiet: Callable[[], bool] | None = None, known: Repeats | None = None
) -> Windows:
    """What chooses the lines of a source, see `Windows`."""
    kind = Entries if export.is_export(source.data, source.format) else Windows
    return kind(source.data, quiet, known)


class Entries(Windows):
    """The entries of a source's windows, one line each. None is passed over for being said again."""

    parting = b"\n\n"
    _entry = 0  # the last one that is known to begin
    _walked = 0  # here, or behind it, a line begins that is in no value

    def backward(self) -> Iterator[Line]:
        self._starts, self._given = [0], 0
        entries = export.entries(self._data, self._first)
        return reversed([line for line, _, _ in entries])

    def _shape(self, before: bytes, row: bytes) -> int:
        return 0

    def _begin(self, at: int, floor: int) -> int:
        self._walk(at)
        return max(self._entry, floor)

    def _tells_nothing(self, start: int) -> bool:
        return True  # else it were in a window, for no place is passed over

    def _window(self, above: int, start: int, stop: int) -> Generator[Line, None, int]:
        gap = start > above
        if gap:
            self._starts.append(start)
            self._given = start
        for line, end, number in export.entries(self._data, start, self._given):
            self._given = number
            line.gap = line.gap or gap
            gap = False
            yield line
            if end >= stop:
                break
        else:
            end = len(self._data)
        self._entry = self._walked = end
        return end

    def _walk(self, place: int) -> None:
        """Find the last entry that begins at `place` or before it."""
        while self._walked < place:
            start = self._walked
            block = self._data[start : start + BLOCK]
            at = 0  # in the block, where a line begins
            while True:
                named = _NAME.match(block, at)
                found = named or _NEXT_NAME.search(block, at)
                plain = at if named else found.start() + 1 if found else block.rfind(b"\n") + 1
                last = min(plain, place - start)
                if block[at : at + 1] == b"\n" and at < last:
                    self._entry = start + at + 1
                parted = block.rfind(b"\n\n", at, last)
                if parted >= 0:
                    self._entry = start + parted + 2
                if last < plain:
                    self._walked = max(self._entry, start + at)
                    return
                if not found:
                    self._walked = start + max(plain, at)
                    break
                behind = export.value_end(self._data, start + found.end())
                if behind > place:
                    self._walked = start + plain
                    return
                at = behind - start
                if at >= len(block):
                    self._walked = behind
                    break
            if self._walked <= start:  # a line that is longer than a block
                self._walked = self._data.find(b"\n", start + len(block)) + 1 or len(self._data)
