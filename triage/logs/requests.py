"""What users sent, where a server logs it: nothing that stands there happened on this machine.

    [2026-05-12 14:04:46] Receive: obj=GenerateReqInput(rid='..', text='Traceback (most recent call last):
    (APIServer pid=7) INFO 05-12 14:04:46 [logger.py:42] Received request chatcmpl-1: prompt: 'NCCL WARN ..'
    {"timestamp": "..", "event": "request.received", "rid": "..", "obj": {"text": ".."}}
    [2026-05-12 14:04:46] Input: Out of memory: Killed process 4711 (python)

A record without a prefix on each of its lines goes on until its writer's next one.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta

from triage.logs.reading.line import Line

MAX_WRITERS = 65_536

CLEARLY = timedelta(seconds=5)
"""How much older a record must be than the one before it to be no record."""

MAX_OLDER = 500
"""Older records after which it is the clock that was set back."""

SENT = "it stands in what a user sent, which the service logged"

_WORD = r"(?:prompt|input|request|messages?|query|question|text|content|body|payload|user|output|response)s?"
_RECORD = re.compile(
    r"(?:Receive|Finish)(?: OpenAI)?: obj=|Received request\b|Generated response |Request \S{1,80} details: "
    r"|(?:(?:[Uu]ser|[Rr]aw|[Rr]eceived|[Nn]ew|[Ii]ncoming|[Cc]hat|[Mm]odel|[Gg]enerated) ){0,2}"
    rf"(?i:{_WORD})(?: (?i:text|body|content))?\s?[:=]"
)
_JSON = re.compile(r'\{.{0,200}?"event": ?"request\.')
_LABEL = re.compile(rf"(?i:(?<![a-z]){_WORD}['\"]?\s?[:=]\s?[\[({{]?\s?[rbf]?['\"]?)$")
_QUOTE = re.compile(r"""\\.|['"]""", re.DOTALL)
_BEFORE_QUOTE = "=:([{,` "


@dataclass(eq=False)
class _OpenRequest:
    """A record that logs a request, while lines can still be part of it."""

    number: int  # of its line
    site: str
    own: datetime | None  # when its writer says that it was
    enveloped: bool
    older: int = 0

    def goes_on(self, line: Line, same: bool) -> bool:
        """Whether a line is part of it; `same` says that its writer has that name, or none.

        A record that a user pasted claims another time than that of its writer, comes in an envelope that
        the log does not have, or stands in the very line that began.
        """
        if line.number == self.number or (line.enveloped and not self.enveloped):
            return True
        if not line.head:
            return same and not self.site
        clock = _clock(self.own)
        if same and (_clock(line.own) != clock or (line.site and line.site == self.site)):
            return True
        older = _clock(line.own) == clock and _before(line.own, self.own)
        self.older += older
        return older and self.older < MAX_OLDER


class Requests:
    """Takes the lines of one source in order, and tells which belong to a record that logs a request."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _OpenRequest] = {}
        self._unsigned: _OpenRequest | None = None  # the latest whose further lines carry no name
        self._claims: set[Hashable] = set()  # who the records of each pid say to be

    def holds(self, line: Line) -> bool:
        if not (line.head or self._open or line.text[:1] == "{"):
            return False
        key: Hashable = line.writer if line.writer is not None else (line.ranks, line.process)
        held, other = self._open.get(key), self._unsigned
        if held is not None and (held.goes_on(line, same=True) or (line.head and self._pretends(line))):
            return True
        if other not in (None, held) and other.goes_on(line, same=line.pid is None and not line.head):
            return True
        if not line.head:
            return _JSON.match(line.text) is not None
        return self._begins(line, key, held)

    def forget(self) -> None:
        """Lines were left out, in which a record may have ended."""
        self._open.clear()
        self._unsigned = None

    def _pretends(self, line: Line) -> bool:
        """Whether a record claims to be of a process that its pid never was."""
        known = line.pid is None or len(self._claims) >= MAX_WRITERS
        return not known and (line.pid, line.ranks, line.tag_pid) not in self._claims

    def _begins(self, line: Line, key: Hashable, held: _OpenRequest | None) -> bool:
        """A record of its own ends the one before it by the same writer, and may log a request."""
        if line.pid is not None and len(self._claims) < MAX_WRITERS:
            self._claims.add((line.pid, line.ranks, line.tag_pid))
        if held is not None:
            del self._open[key]
            self._unsigned = None if self._unsigned is held else self._unsigned
        if not (_RECORD.match(line.text) or _JSON.match(line.text)):
            return False
        if len(self._open) < MAX_WRITERS:
            self._open[key] = opened = _OpenRequest(line.number, line.site, line.own, line.enveloped)
            self._unsigned = opened if line.writer is None else self._unsigned
        return True


def _clock(time: datetime | None) -> str:
    return "" if time is None else "with zone" if time.tzinfo else "local"


def _before(one: datetime | None, other: datetime | None) -> bool:
    return one is not None and other is not None and other - one > CLEARLY


def introduces(header: str) -> bool:
    """Whether what stands before something is the name of a text that a user sent, or an opened quote."""
    return bool(header) and (_LABEL.search(header[-200:]) is not None or quoted_at(header, len(header)))


def quoted_at(text: str, place: int) -> bool:
    """Whether a quote was opened before this place, and not closed again. An apostrophe opens none."""
    opened = ""
    for match in _QUOTE.finditer(text, 0, place):
        mark, at = match[0], match.start()
        if not opened:
            if len(mark) == 1 and (at == 0 or text[at - 1] in _BEFORE_QUOTE):
                opened = mark
        elif mark == opened and not text[at + 1 : at + 2].isalnum():
            opened = ""
    return bool(opened)
