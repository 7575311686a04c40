"""Every sample as a test: its own entry claims it and gives what it says; a near miss it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.logs.faults.fault_lines import FaultLine, Hit
from triage.logs.faults.line_schema import Entry, LinesFile, read_files
from triage.logs.faults.lines import claim
from triage.logs.model import LogSource
from triage.logs.reading.reader import read_lines

Claim = tuple[FaultLine, Hit | None]


def check_lines(files: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong as (family and needle, reason). Raises UsageError for a broken file."""
    read = read_files(files)
    known = tuple(entry.line() for file in read for entry in file.lines)
    for file in read:
        for entry in file.lines:
            for reason in _problems(entry, known):
                yield f"{file.family}: {entry.needle}", reason


def cases_of(files: Sequence[LinesFile]) -> Iterator[tuple[str, Entry]]:
    """Yield every entry with a name for it."""
    for file in files:
        for entry in file.lines:
            yield f"{file.family}: {entry.needle}", entry


def _problems(entry: Entry, known: Sequence[FaultLine]) -> Iterator[str]:
    own = entry.line()
    for sample in entry.samples:
        claimed, hit = next((found for found in _claims(sample.line, known) if found[0] == own), (None, None))
        if claimed is None:
            others = [found[0].needle for found in _claims(sample.line, known)]
            by = f"; {others[0]!r} claims it" if others else ""
            yield f"it does not claim its sample {sample.line!r}{by}"
            continue
        gives = hit.fault.type if hit else None
        if gives != sample.type:
            yield f"its sample gives the type {gives!r} and not {sample.type!r}: {sample.line!r}"
        if hit and sample.message is not None and hit.fault.message != sample.message:
            yield f"its sample gives the message {hit.fault.message!r} and not {sample.message!r}"
    for miss in entry.near_misses:
        if any(found[0] == own for found in _claims(miss, known)):
            yield f"it claims what it must not: {miss!r}"


def _claims(text: str, known: Sequence[FaultLine]) -> Iterator[Claim]:
    for line in read_lines(LogSource("sample", f"{text}\n".encode())):
        if found := claim(line, known):
            yield found
