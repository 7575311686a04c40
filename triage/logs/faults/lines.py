"""Which error a line is, if any.

A pattern is tried only on lines that contain its needle, once: where the needle stands, or where the line
begins. So a line costs no more than its length, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from triage.logs.faults.fault_lines import FaultLine, Hit, compiled, doubted
from triage.logs.faults.line_files import known_lines
from triage.logs.faults.readers import READERS
from triage.logs.reading.line import MATCH_LIMIT, Line
from triage.logs.requests import introduces


def hits(line: Line) -> Hit | None:
    """What a line tells, by the first entry that fits."""
    return found[1] if (found := claim(line, known_lines())) else None


def claim(line: Line, known: Sequence[FaultLine]) -> tuple[FaultLine, Hit | None] | None:
    """The first entry that fits a line, and what it tells by that: None where that is no failure."""
    text = line.text[:MATCH_LIMIT]
    for entry in known:
        place = text.find(entry.needle)
        if place < 0 or not _may_say(entry, line, text, place):
            continue
        match = compiled(entry.pattern).match(text, place if entry.inside else 0)
        if match is not None:
            hit = READERS[entry.read](entry, line, match) if entry.read else entry.hit(line)
            told = entry.witness in ("", "unsigned", line.author)
            return entry, hit if told or hit is None else doubted(hit)
    return None


@lru_cache(maxsize=1)
def needles() -> tuple[str, ...]:
    """Return what stands in every line that some entry fits."""
    return tuple(dict.fromkeys(entry.needle for entry in known_lines()))


def _may_say(entry: FaultLine, line: Line, text: str, place: int) -> bool:
    """Whether the writer of a line can know what it says, and says it for itself."""
    witness, author = entry.witness, line.author
    signed = author or line.head or line.repeating
    if witness == author:
        return bool(witness) or not introduces(text[:place])
    if not witness:
        return author != "program" or not introduces(text[:place])
    if witness == "unsigned":
        return not (line.head or author in ("kernel", "manager") or (signed and entry.kind == "service"))
    if signed:
        return False
    if entry.alone:
        return compiled(entry.alone).match(text) is not None
    return witness == "manager" and not entry.inside
