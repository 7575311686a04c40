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

from triage.logs.line import Line

MAX_WRITERS = 65_536

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


class Requests:
    """Takes the lines of one source in order, and tells which belong to a record that logs a request."""

    def __init__(self) -> None:
        self._open: dict[Hashable, str] = {}  # whose latest record is one -> where it was made
        self._unsigned = 0  # of them, those whose further lines carry no name

    def holds(self, line: Line) -> bool:
        if not (line.head or self._open or line.text[:1] == "{"):
            return False
        key: Hashable = line.writer if line.writer is not None else (line.ranks, line.process)
        if line.head:
            return self._begins(line, key)
        if _JSON.match(line.text):
            return True
        return key in self._open if line.writer is not None else self._unsigned > 0

    def _begins(self, line: Line, key: Hashable) -> bool:
        logs = line.head and (_RECORD.match(line.text) or _JSON.match(line.text)) is not None
        if not logs and line.repeating and line.site and self._open.get(key) == line.site:
            return True
        if self._open.pop(key, None) is not None and line.writer is None:
            self._unsigned -= 1
        if logs and len(self._open) < MAX_WRITERS:
            self._open[key] = line.site
            self._unsigned += line.writer is None
        return logs


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
