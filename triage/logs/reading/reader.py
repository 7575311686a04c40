"""Bytes -> lines with their prefixes read: any format, nested, in the order in which things happened."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from triage.logs.formats import DOUBTFUL, Peeler, export, named
from triage.logs.model import LogSource
from triage.logs.reading.entries import Entries, windows_of
from triage.logs.reading.line import MATCH_LIMIT, Line
from triage.logs.reading.windows import Windows
from triage.logs.reading.wraps import whole_lines, width_of

SAMPLE = 400
"""Lines that are looked at to tell doubtful formats, and the direction of time."""

SAMPLE_SIZE = 4 << 20
"""Characters of them."""

MAX_PARTS = 256
"""Pieces of one line, as container runtimes cut it (16 KiB each), that are joined again."""

RSYSLOG = "#033["
"""How rsyslog writes the beginning of a terminal escape."""

SPLITS = ("\r", "\n", "/s", "\x1b", "\0", RSYSLOG)
"""What a line holds that is more than one, or more than text."""

_ANSI = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])")
_RECORD_INSIDE = re.compile(
    r"\[20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?(?: [A-Z][A-Z_]{1,9}\d{1,6}){0,12}\] \S"
)
_BETWEEN_RETURNS = re.compile(r"[^\r]+")
_PROGRESS_END = re.compile(r"(?:it/s|s/it|B/s)(?:, [^\]\n]{0,120})?\](?=\S)")


def read_lines(source: LogSource, windows: Windows | None = None) -> Iterator[Line]:
    """The lines of a source, or of its windows, oldest first; empty lines too, for they end messages."""
    entries = export.reader(source.data, source.format)
    windows = windows or windows_of(source)
    width = None if entries or isinstance(windows, Entries) else width_of(source.data)
    if width:
        windows.read_all()
    stream: Iterator[Line] = entries(source.data) if entries else windows.lines()
    head: list[Line] = []
    size = 0
    for line in stream:
        head.append(line)
        size += len(line.text)
        if len(head) >= SAMPLE or size > SAMPLE_SIZE:
            break
    peel, sample = _peeled(head, named(source.format) if source.format else ())
    # a record of several lines is joined with CR LF; a whole file in CR LF says nothing
    carriage = sum(line.text.endswith("\r") for line in head) < 0.9 * len(head)
    if not newest_first(sample):
        stream = chain(head, stream)
        return _finish(whole_lines(stream, width, peel) if width else stream, peel, carriage)
    backward = reversed([*head, *stream]) if entries else windows.backward()
    return _finish(backward, peel, carriage)


def _peeled(sample: Sequence[Line], families: Sequence[object]) -> tuple[Peeler, list[Line]]:
    """What takes the layers off, and the sample without them. Unless the families are given, those that
    only the sample can vouch for are among them, outermost layers first."""
    found: list[object] = []
    while True:
        peel = Peeler(families=families) if families else Peeler(found)
        lines = [line.within(clean(line.text[:2048])) for line in sample]
        for line in lines:
            peel(line)
        texts = [line.text for line in lines if line.text.strip()]
        more = () if families or len(texts) < 3 else _vouched_for(texts, found)
        if not more:
            return peel, lines
        found += more


def _vouched_for(texts: Sequence[str], found: Sequence[object]) -> list[object]:
    return [family for family in DOUBTFUL if family not in found and family.applies(texts)]  # type: ignore[attr-defined]


def newest_first(sample: Sequence[Line]) -> bool:
    """Whether the times of a sample run backwards: consoles export so, and `journalctl -r`."""
    down = up = 0
    last = None
    for time in (line.time for line in sample):
        if time is None:
            continue
        if last is not None and (time.tzinfo is None) == (last.tzinfo is None):
            down += time < last
            up += time > last
        last = time
    return down > 3 * up


def _finish(entries: Iterable[Line], peel: Peeler, carriage: bool) -> Iterator[Line]:
    parts: dict[str, list[Line]] = {}
    gap = False
    for line in entries:
        if line.gap:
            gap, line.gap = True, False
            parts.clear()
        for piece in _split(line, carriage):
            peel(piece)
            if piece.gap:
                gap, piece.gap = True, False
                parts.clear()
            if piece.part or parts:
                if not _join(piece, parts):
                    continue
                if not piece.head:
                    peel(piece)
            # what a JSON field or a joined line held can be several lines with prefixes of their own
            for inner in _split(piece, carriage):
                if inner is not piece:
                    peel(inner)
                inner.gap, gap = gap, False
                if not inner.head and "[20" in inner.text:
                    yield from _torn(inner, peel)
                else:
                    yield inner
    yield from map(_joined, parts.values())  # the end of the log cut them


def _split(line: Line, carriage: bool) -> Iterable[Line]:
    """The lines inside a line: escapes away, progress bars parted from what is glued to them."""
    text = line.text
    if not any(map(text.__contains__, SPLITS)):
        return (line,)
    text = clean(text)
    if "\n" in text or "\r" in text:
        return _pieces(line, text, carriage)
    return _unglue(line if text is line.text else line.within(text))


def _pieces(line: Line, text: str, carriage: bool) -> Iterator[Line]:
    several = "\n" in text
    start = 0
    while start <= len(text):
        end = text.find("\n", start)
        last = end < 0
        row = text[start:] if last else text[start:end]
        more = line.more or not last or (carriage and row.endswith("\r"))
        found = False
        for piece in _BETWEEN_RETURNS.finditer(row):
            yield from _piece(line, piece[0], more, several, start == 0)
            found = True
        if not found:
            yield from _piece(line, "", more, several, start == 0)
        if last:
            return
        start = end + 1


def _piece(line: Line, text: str, more: bool, several: bool, first: bool) -> Sequence[Line]:
    inner = line.within(text)
    inner.more = more
    if several:
        # one record of the source, whatever stands in it
        inner.repeating = True
        inner.head = line.head and first
    return _unglue(inner)


def _unglue(line: Line) -> Sequence[Line]:
    text = line.text
    if "/s" in text or "s/it" in text:
        match = _PROGRESS_END.search(text, 0, 4096)
        if match is not None:
            glued = line.within(text[match.end() :])
            line.text = text[: match.end()]
            return (line, glued)
    return (line,)


def _torn(line: Line, peel: Peeler) -> Iterator[Line]:
    """Part a line from the record of another process that was written into the middle of it."""
    match = _RECORD_INSIDE.search(line.text, 1, MATCH_LIMIT)
    if match is None:
        yield line
        return
    yield line.within(line.text[: match.start()])
    rest = line.within(line.text[match.start() :])
    peel(rest)
    yield rest


def clean(text: str) -> str:
    """Return a text without terminal escapes and the NULs that a truncated log begins with."""
    if RSYSLOG in text:
        text = text.replace(RSYSLOG, "\x1b[")
    if "\x1b" in text:
        text = _ANSI.sub("", text).replace("\x1b", "")
    return text.replace("\0", "") if "\0" in text else text


def _join(line: Line, parts: dict[str, list[Line]]) -> bool:
    """Join what a container runtime cut; False while the end is missing."""
    held = parts.setdefault(line.identifier, [])
    held.append(line)
    if line.part and len(held) < MAX_PARTS:
        return False
    _joined(held)
    del parts[line.identifier]
    return True


def _joined(held: Sequence[Line]) -> Line:
    line = held[-1]
    line.text = "".join(part.text for part in held)
    line.lines = [part.number for part in held]
    for name, value in held[0].__dict__.items():  # the first part has the prefix
        line.__dict__.setdefault(name, value)
    return line
