"""One log parted into one file a rank: every line byte for byte, and none lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from triage.common.errors import RefusedError, UnreachableError
from triage.common.files import resolved
from triage.logs.model import LogSource
from triage.logs.ranks import name_of
from triage.logs.reading.content import Content, as_utf8, blocks, rows
from triage.logs.reading.records import signed_lines
from triage.logs.views.selecting import MAIN

MAX_FILES = 4096
"""Ranks that get a file of their own; lines of further ones go to main."""

MAX_NAME = 200

HELD = 8 << 20
"""Bytes that are held back before they are written."""

STEP = 256
"""Lines of which the place of the first is remembered."""


def split_ranks(sources: Iterable[LogSource], directory: Path) -> Mapping[str, int]:
    """Write one file a rank, `PP3-TP0.log`, and `main.log` for what no rank wrote; how many lines each has.

    Oldest line first. A line that two ranks tore is in the files of both. `directory` is made whole or not at
    all. Raises RefusedError when something is in it, UnreachableError when it cannot be written.
    """
    try:
        place = resolved(directory)
        if place.exists() and not (place.is_dir() and not any(place.iterdir())):
            raise RefusedError(
                "splitting into", str(directory), "something is there", "name another directory"
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        work = place.parent / f".{place.name}.{os.urandom(6).hex()}"
        work.mkdir()
        try:
            files = _Files(work)
            for source in sources:
                _split(source, files)
            files.flush()
            work.rename(place)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
    except OSError as error:
        raise UnreachableError(
            "splitting into", str(directory), error.strerror or str(error), f"ls -ld {directory.parent}"
        ) from None
    return files.lines


def _split(source: LogSource, files: _Files) -> None:
    data = as_utf8(source.data)
    places = _Places(data)
    claimed = bytearray(places.count + 1)
    for ranks, numbers in _claims(source):
        for number in numbers:
            if number <= places.count:
                claimed[number] = 1
                for rank in ranks:
                    files.write(rank, data, *places[number])
    # what no record is made of: a damaged entry, the first part of a line whose end is missing
    number = claimed.find(0, 1)
    while number > 0:
        files.write(MAIN, data, *places[number])
        number = claimed.find(0, number + 1)


def _claims(source: LogSource) -> Iterator[tuple[Sequence[str], Sequence[int]]]:
    """Lines of the file that belong together, and who wrote them."""
    for number, pieces in groupby(signed_lines(source), key=lambda line: line.number):
        ranks: dict[str, None] = {}
        numbers: Sequence[int] = ()
        for piece in pieces:
            numbers = piece.lines or (number,)
            if piece.ranks:
                ranks[name_of(piece.ranks).replace(" ", "-")] = None
        yield tuple(ranks) or (MAIN,), numbers


class _Places:
    """The places where each line of a source begins and ends, with its newline."""

    def __init__(self, data: Content) -> None:
        self._data = data
        self._starts: list[int] = []  # of every STEP-th line
        self.count = 0
        begins = True
        for start, _, ends in rows(data, 0, len(data)):
            if begins:
                if self.count % STEP == 0:
                    self._starts.append(start)
                self.count += 1
            begins = ends
        self._held, self._block = [0], -1

    def __getitem__(self, number: int) -> tuple[int, int]:
        block, index = divmod(number - 1, STEP)
        if block != self._block:
            stop = self._starts[block + 1] if block + 1 < len(self._starts) else len(self._data)
            self._held = [self._starts[block]]
            for start, row, ends in rows(self._data, self._starts[block], stop):
                if ends:
                    self._held.append(min(start + len(row) + 1, stop))
            self._block = block
        return self._held[index], self._held[index + 1]


class _Files:
    """The files of ranks, few of them open, and what was not written to them yet."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, list[bytes]] = {}
        self._size = 0
        self._unended: set[str] = set()  # those whose last line has no newline, as at the end of a source
        self.lines: dict[str, int] = {}

    def write(self, rank: str, data: Content, start: int, stop: int) -> None:
        if rank not in self.lines and (
            len(self.lines) >= MAX_FILES or len(rank) > MAX_NAME or not rank.isascii()
        ):
            rank = MAIN
        self.lines[rank] = self.lines.get(rank, 0) + 1
        if rank in self._unended:
            self._hold(rank, b"\n")
        for block in blocks(data, start, stop):
            self._hold(rank, block)
        if data[stop - 1 : stop] == b"\n":
            self._unended.discard(rank)
        else:
            self._unended.add(rank)

    def _hold(self, rank: str, block: bytes) -> None:
        self._held.setdefault(rank, []).append(block)
        self._size += len(block)
        if self._size > HELD:
            self.flush()

    def flush(self) -> None:
        for rank, held in self._held.items():
            with (self._directory / f"{rank}.log").open("ab") as file:
                file.writelines(held)
        self._held.clear()
        self._size = 0
