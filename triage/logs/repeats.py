"""Lines that a run says again and again: after a while they are counted, and no longer read.

A line is known by its text and that of the line before it, numbers made equal but for those that name a rank
or a process. Lines that tell of a start, a stop or a fact are never learned.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from typing import Protocol

OFTEN = 64
"""Times that a run must have said a line before it is passed over."""

MAX_KNOWN = 65_536
"""Lines of a run that name faults and are told apart by their ranks; of more the ranks count as equal."""

LONGEST = 4096
"""Bytes of a line that can be known."""

MAX_HELD = 4096
"""Lines passed over that could still be read, with what stands near them."""

# A digit first: a search that begins with what stands before it looks at every place.
_NUMBER = re.compile(rb"\d(?<=[^A-Z0-9\[,]\d)(?<!rank\d)(?<!rank=\d)(?<!pid=\d)\d*")
_DIGITS = re.compile(rb"\d+")
_ENTRY, _PID, _MESSAGE = b'{"__CURSOR": ', b'"_PID": ', b', "MESSAGE": '
_AGAIN = b"repeated "  # Ray writes how often: such a line counts as many


class Counted(Protocol):
    """A fault of a run; `more` counts how often it was said again."""

    more: int


class Repeats:
    """What a run said so far, and how often."""

    def __init__(self) -> None:
        self._said: Counter[int] = Counter()
        self._faults: dict[int, Counted] = {}
        self._number = _NUMBER
        self._last = b"", b""
        self._held: deque[tuple[int, Counted | None]] = deque()

    def shape(self, before: bytes, row: bytes) -> int:
        """What is equal for lines that differ in numbers alone; 0 for a line that is read in any case."""
        if len(row) > LONGEST or _AGAIN in row:
            return 0
        last, equal = self._last
        above = equal if before == last else self._equal(before[-LONGEST:])
        equal = self._equal(row)
        self._last = row, equal
        return hash((above, equal))

    def _equal(self, row: bytes) -> bytes:
        """The row with equal numbers; of an entry of a journal who wrote it, and what follows."""
        if not row.startswith(_ENTRY):
            return self._number.sub(b"0", row)
        before, _, said = row.partition(_MESSAGE)
        return before[before.find(_PID) :] + self._number.sub(b"0", said)

    def learn(self, shape: int) -> None:
        """A line was read that tells nothing but a fault, or nothing at all."""
        if shape:
            self._said[shape] += 1
            if len(self._said) > 4 * MAX_KNOWN:
                self._said.clear()

    def name(self, shape: int, fault: Counted | None) -> None:
        """A line named a fault, or said it again: the one that is kept of the run."""
        if shape and fault is not None:
            self._faults[shape] = fault
            if len(self._faults) > MAX_KNOWN:
                self.forget()
                self._number = _DIGITS
                self._last = b"", b""

    def knows(self, shape: int) -> bool:
        return self._said.get(shape, 0) >= OFTEN

    def again(self, shape: int) -> None:
        """A line that is known was read nevertheless."""
        fault = self._faults.get(shape)
        if fault is not None:
            fault.more += 1

    def forget(self) -> None:
        """Another run begins."""
        self._said.clear()
        self._faults.clear()
        self._number = _NUMBER
        self._last = b"", b""

    def passed(self, place: int, shape: int) -> None:
        """A line that is known was passed over."""
        self._held.append((place, self._faults.get(shape)))
        if len(self._held) > MAX_HELD:
            self._count(self._held.popleft()[1])

    def settle(self, place: int) -> None:
        """What was passed over before a place is counted, the rest of it will be read."""
        while self._held:
            at, fault = self._held.popleft()
            if at < place:
                self._count(fault)

    @staticmethod
    def _count(fault: Counted | None) -> None:
        if fault is not None:
            fault.more += 1
