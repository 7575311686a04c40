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

from triage.logs.line import Line

MAX_WRITERS = 65_536

CLEARLY = timedelta(seconds=5)
"""How much older a record must be than the one before it to be no record."""

MAX_OLDER = 500
"""Older records after which it is the clock that was set back."""

WHY = "it stands in what a user sent, which the service logged"

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
class _Open:
    """A record that logs a request, while lines can still be part of it."""

    number: int  # of its line
    site: str
    own: datetime | None  # when its writer says that it was
    ranks: frozenset[str]
    enveloped: bool
    older: int = 0

    def goes_on(self, line: Line, same: bool) -> bool:
        """Whether a line is part of it; `same` says that its writer has that name, or none.

        A record that a user pasted claims another process or another time than those of its writer, comes
        in an envelope that the log does not have, or stands in the very line that began.
        """
        if line.number == self.number or (line.enveloped and not self.enveloped):
            return True
        if not line.head:
            return same and not self.site
        if same and line.site and line.site == self.site:
            return True
        if (
            same
            and line.pid is not None
            and (line.tag_pid not in (None, line.pid) or line.ranks != self.ranks)
        ):
            return True
        if same and _clock(line.own) != _clock(self.own):
            return True
        older = _clock(line.own) == _clock(self.own) and _before(line.own, self.own)
        self.older += older
        return older and self.older < MAX_OLDER


class Requests:
    """Takes the lines of one source in order, and tells which belong to a record that logs a request."""

    def __init__(self) -> None:
        self._open: dict[Hashable, _Open] = {}
        self._unsigned: _Open | None = None  # the latest whose further lines carry no name

    def holds(self, line: Line) -> bool:
        if not (line.head or self._open or line.text[:1] == "{"):
            return False
        key: Hashable = line.writer if line.writer is not None else (line.ranks, line.process)
        held = self._open.get(key)
        if held is not None and held.goes_on(line, same=True):
            return True
        other = self._unsigned
        if (
            other is not None
            and other is not held
            and other.goes_on(line, same=line.pid is None and not line.head)
        ):
            return True
        if not line.head:
            return _JSON.match(line.text) is not None
        return self._begins(line, key)

    def _begins(self, line: Line, key: Hashable) -> bool:
        if self._open.pop(key, None) is self._unsigned:
            self._unsigned = None
        if not (_RECORD.match(line.text) or _JSON.match(line.text)):
            return False
        if len(self._open) < MAX_WRITERS:
            self._open[key] = opened = _Open(line.number, line.site, line.own, line.ranks, line.enveloped)
            if line.writer is None:
                self._unsigned = opened
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
