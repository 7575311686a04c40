"""Native deaths that print more than one line.

Fatal Python error: Segmentation fault            faulthandler, most recent call first
Current thread 0x00007f.. (most recent call first):
  File "x.py", line 12 in f

!!!!!!! Segfault encountered !!!!!!!              torch's handler
  File "<unknown>", line 0, in gsignal

terminate called after throwing an instance of 'c10::Error'
  what():  NCCL error: ...
"""

from __future__ import annotations

import re

from triage.logs.line import MATCH_LIMIT, Line
from triage.logs.model import Fault, Frame, Position
from triage.logs.traceback import MAX_FRAMES, MAX_MESSAGE, Kind, Read

_START = re.compile(
    r"Fatal Python error: (?P<fatal>[^\n]{1,300})|!{5,10} (?P<torch>Segfault) encountered !{5,10}"
    r"|terminate called (?:after throwing an instance of '(?P<thrown>[^']{1,300})'"
    r"|(?P<bare>without an active exception))"
)
_WHAT = re.compile(r"\s{0,8}what\(\): {0,2}(.*)", re.DOTALL)
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]{1,16}.{0,120}\(most recent call first\):?")
_FRAME = re.compile(r'\s{1,8}File "([^"]{0,1024})", line (\d{1,9}),? in (.{0,500})$')
_ALSO = re.compile(r"\s*(?:<no Python frame>|\.\.\.|Python runtime state: .*|Extension modules: .*|)$")

SIGNALS = {
    "segmentation fault": "SIGSEGV",
    "segfault": "SIGSEGV",
    "aborted": "SIGABRT",
    "bus error": "SIGBUS",
    "illegal instruction": "SIGILL",
    "floating point exception": "SIGFPE",
}


BEGINNINGS = ("Fatal Python error: ", "!!!!! Segfault", "terminate called ")


def may_begin(text: str) -> bool:
    fatal, torch, thrown = BEGINNINGS
    return fatal in text or torch in text or thrown in text


class Dump:
    """A native death that is being read; the same shape as `Traceback`."""

    def __init__(self, line: Line, match: re.Match[str]) -> None:
        self.first = self.latest = line
        self.depth = self.base = 0
        self.thrown = match["thrown"] or match["bare"] or ""
        said = match["fatal"] or match["torch"] or ""
        self.type = self.thrown or SIGNALS.get(said.lower(), "") or "fatal-error"
        self.message = said if self.type != "SIGSEGV" or match["fatal"] else "Segfault encountered"
        self.frames: list[Frame] = []
        self.current = True
        self.what = False

    @classmethod
    def begin(cls, line: Line) -> Dump | None:
        match = _START.search(line.text, 0, MATCH_LIMIT)
        return cls(line, match) if match else None

    def reading(self, line: Line) -> Read:
        return Kind.OTHER, None

    def calls(self, function: str) -> bool:
        return False

    def fits(self, line: Line, kind: Kind) -> int:
        text = line.text[:MATCH_LIMIT]
        if self.thrown:
            return 3 if not self.what and _WHAT.match(text) else 0
        return 3 if _FRAME.match(text) or _THREAD.match(text) else 1 if _ALSO.match(text) else 0

    def feed(self, line: Line, kind: Kind, match: re.Match[str] | None) -> bool:
        text = line.text[:MATCH_LIMIT]
        if self.thrown:
            what = _WHAT.match(text)
            if what is None or self.what:
                return False
            self.message, self.what = what[1][:MAX_MESSAGE], True
        elif (thread := _THREAD.match(text)) is not None:
            # other threads are printed too; they stand for the one that failed only where it is missing
            self.current = thread[1] == "Current thread" or not self.frames
            if thread[1] == "Current thread":
                self.frames.clear()
        elif (frame := _FRAME.match(text)) is not None:
            if self.current and len(self.frames) < MAX_FRAMES:
                self.frames.append(Frame(frame[1], int(frame[2]), frame[3].strip()))
        elif not _ALSO.match(text):
            return False
        self.latest = line
        return True

    @property
    def over(self) -> bool:
        return self.what

    @property
    def named(self) -> Line:
        return self.first

    def settle(self) -> None:
        return

    def fault(self, source: str) -> Fault | None:
        first = self.first
        return Fault(
            kind="native",
            type=self.type,
            message=self.message.strip(),
            position=Position(source, first.number, first.cursor),
            time=first.time,
            pid=first.writer,
            ranks=first.ranks,
            frames=tuple(reversed(self.frames)),
            count=first.repeat,
        )
