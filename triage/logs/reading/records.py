"""Every record of a source, each with the ranks that it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from triage.logs.model import LogSource, Position, Record
from triage.logs.reading.line import Line
from triage.logs.reading.reader import read_lines
from triage.logs.streams import Streams


def read_records(source: LogSource) -> Iterator[Record]:
    """One record a line, oldest first. Lines that carry no prefix of their own have the time and the
    ranks of the record that they continue, as far as the log tells who wrote them."""
    for line in signed_lines(source):
        yield record(line, source.name)


def signed_lines(source: LogSource) -> Iterator[Line]:
    """Every line, oldest first, with the ranks and the time of the record that it belongs to."""
    streams = Streams()
    for line in read_lines(source):
        for _ in streams.feed(line):
            pass
        yield line


def record(line: Line, source: str) -> Record:
    return Record(
        time=line.time,
        pid=line.writer,
        ranks=line.ranks,
        level=line.level,
        identifier=line.identifier or line.process,
        text=line.text,
        position=Position(source, line.number, line.cursor),
    )
