"""The bytes of a source, however many: in memory, or in a file and read where they are asked for."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from typing import IO

LINE_LIMIT = 1 << 20
"""Bytes of a line that are read at a time: a longer one is read as several with the same number."""

BLOCK = 1 << 20


class Stored:
    """The first `size` bytes of a file, sliced and searched like `bytes`, none of them kept in memory."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = os.dup(file.fileno())
        self._size = size
        self._held, self._from = b"", 0  # the block that was searched last
        weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, part: slice) -> bytes:
        start, stop, _ = part.indices(self._size)
        if self._from <= start and stop <= self._from + len(self._held):
            return self._held[start - self._from : max(stop, start) - self._from]
        pieces = []
        while start < stop and (piece := os.pread(self._file, stop - start, start)):
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __bytes__(self) -> bytes:
        return self[:]

    def find(self, byte: bytes, start: int) -> int:
        """Return where the next such byte is, -1 if nowhere."""
        while start < self._size:
            place = start - self._from
            if not 0 <= place < len(self._held):
                self._held, self._from, place = self[start : start + BLOCK], start, 0
                if not self._held:
                    return -1
            found = self._held.find(byte, place)
            if found >= 0:
                return self._from + found
            start = self._from + len(self._held)
        return -1


Content = bytes | Stored


def is_utf16(start: bytes) -> bool:
    return start.startswith((b"\xff\xfe", b"\xfe\xff"))


def as_utf8(data: Content) -> Content:
    """Return the bytes in UTF-8, if a byte order mark says that they are UTF-16."""
    if is_utf16(data[:2]):
        return bytes(data).decode("utf-16", "backslashreplace").encode("utf-8", "backslashreplace")
    return data


def beginning(data: Content, size: int) -> bytes:
    """The first bytes after the NULs that a truncated log begins with."""
    at = 0
    for block in blocks(data, 0, len(data)):
        at += len(block) - len(block.lstrip(b"\0"))
        if block.strip(b"\0"):
            break
    return data[at : at + size]


def blocks(data: Content, start: int, stop: int) -> Iterator[bytes]:
    for at in range(start, stop, BLOCK):
        yield data[at : min(at + BLOCK, stop)]


def line_start(data: Content, at: int, floor: int) -> int:
    """Where the line begins that the byte before `at` is in or ends, `floor` at the earliest.

    A line longer than the limit is cut.
    """
    floor = max(floor, at - LINE_LIMIT)
    step, stop = 4096, at
    while stop > floor:
        start = max(floor, stop - step)
        found = data[start:stop].rfind(b"\n")
        if found >= 0:
            return start + found + 1
        stop, step = start, 2 * step
    return floor


def rows(data: Content, start: int, stop: int) -> Iterator[tuple[int, bytes, bool]]:
    """The lines from `start` to the one that `stop` is in or ends: where each begins, its bytes without
    the newline, and whether the line ends with them."""
    rest, at, step = b"", start, min(max(stop - start, 4096), BLOCK)
    while start < stop and (block := data[at : at + step]):
        at += len(block)
        step = min(2 * step, BLOCK)
        found = (rest + block).split(b"\n")
        rest = found.pop()
        for row in found:
            yield start, row, True
            start += len(row) + 1
            if start >= stop:
                return
        while len(rest) >= LINE_LIMIT:
            yield start, rest[:LINE_LIMIT], False
            start += LINE_LIMIT
            rest = rest[LINE_LIMIT:]
    if rest and start < stop:
        yield start, rest, True
