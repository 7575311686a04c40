"""Native deaths that print more than one line, and where the threads of a process were at a moment.

Fatal Python error: Segmentation fault            faulthandler, most recent call first
Current thread 0x00007f.. (most recent call first):
  File "x.py", line 12 in f

!!!!!!! Segfault encountered !!!!!!!              torch's handler
  File "<unknown>", line 0, in gsignal

terminate called after throwing an instance of 'c10::Error'
  what():  NCCL error: ...

Process 4712: sglang::scheduler_TP1               py-spy, innermost first; SGLang's watchdog logs what it says
Python v3.12.3 (/usr/bin/python3.12)

Thread 4712 (active+gil): "MainThread"
    synchronize (torch/cuda/streams.py:113)
"""

from __future__ import annotations

import re

from triage.logs.faults.traceback import MAX_FRAMES, MAX_MESSAGE, Kind, Read
from triage.logs.model import Fault, Frame, Position
from triage.logs.reading.line import MATCH_LIMIT, Line

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


_SNAPSHOT = re.compile(
    r"(?:Pyspy dump for PID |Process )(?P<pid>\d{1,9})(?: \(py-spy.{0,200}\))?:"
    r"|(?P<thread>Thread 0x[0-9a-f]{1,16}) "
)
_SPIED = re.compile(r" {4}(?P<function>[^(]{1,500}) \((?P<file>[^()]{1,1024}):(?P<line>\d{1,9})\)$")
_SPIED_THREAD = re.compile(
    r'Thread (?:0x[0-9A-Fa-f]{1,16}|\d{1,9}) \([\w+]{1,40}\)(?:: "(?P<name>.{0,100})")?$'
)
_SPIED_ALSO = re.compile(r"Process \d{1,9}: |Python v\d| {4}\S|\s*$")
MAIN = "MainThread"

BEGINNINGS = (
    "Fatal Python error: ",
    "!!!!! Segfault",
    "terminate called ",
    "Pyspy dump for PID ",
    "Python v3.",
    "most recent call first",
)
_FIRST_LINES = (*BEGINNINGS[:4], "Process ", "Thread 0x")


def may_begin(text: str) -> bool:
    fatal, torch, thrown, spied, process, thread = _FIRST_LINES
    return (
        fatal in text
        or torch in text
        or thrown in text
        or spied in text
        or text.startswith((process, thread))
    )


def begin(line: Line) -> Dump | Snapshot | None:
    """What begins with a line."""
    return Dump.begin(line) or Snapshot.begin(line)


class Dump:
    """A native death that is being read; the same shape as `Traceback`."""

    whole = True

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


class Snapshot:
    """Where the threads of a process were that goes on: no fault, but it explains why one stood still.

    `pid` is that of the process, None where only the writer tells. The same shape as `Traceback`.
    """

    depth = base = 0
    over = False
    whole = True

    def __init__(self, line: Line, pid: int | None) -> None:
        self.first = self.latest = line
        self.pid = pid
        self.threads = 0
        self._stack: list[Frame] = []
        self._main = False  # what py-spy calls the main thread was read
        self._current = False

    @classmethod
    def begin(cls, line: Line) -> Snapshot | None:
        text = line.text[:MATCH_LIMIT]
        match = _SNAPSHOT.match(text)
        if match is None:
            return None
        snapshot = cls(line, int(match["pid"]) if match["pid"] else None)
        if match["thread"] and not snapshot.feed(line, Kind.OTHER, None):
            return None
        return snapshot

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Those of the main thread, outermost first; faulthandler prints it last, py-spy says its name."""
        return tuple(reversed(self._stack))

    @property
    def named(self) -> Line:
        return self.first

    def reading(self, line: Line) -> Read:
        return Kind.OTHER, None

    def calls(self, function: str) -> bool:
        return False

    def fits(self, line: Line, kind: Kind) -> int:
        text = line.text[:MATCH_LIMIT]
        if _SPIED.match(text) or _SPIED_THREAD.match(text) or _THREAD.match(text):
            return 3
        if text.startswith("Process "):
            return 0 if self.threads else 3
        return 3 if _FRAME.match(text) else 1 if _SPIED_ALSO.match(text) else 0

    def feed(self, line: Line, kind: Kind, match: re.Match[str] | None) -> bool:
        text = line.text[:MATCH_LIMIT]
        if (thread := _SPIED_THREAD.match(text)) is not None:
            self._thread(thread["name"] or "")
        elif _THREAD.match(text):
            self._thread("")
        elif (frame := _SPIED.match(text)) is not None:
            # `Scheduler.run_batch`: the class is not part of the name in a traceback
            self._frame(frame["file"], frame["line"], frame["function"].rpartition(".")[2])
        elif (frame := _FRAME.match(text)) is not None:
            self._frame(frame[1], frame[2], frame[3].strip())
        elif not self.fits(line, kind):
            return False
        self.latest = line
        return True

    def _thread(self, name: str) -> None:
        self.threads += 1
        self._current = not self._main
        if self._current:
            self._stack.clear()
            self._main = name == MAIN

    def _frame(self, file: str, line: str, function: str) -> None:
        if self._current and len(self._stack) < MAX_FRAMES:
            self._stack.append(Frame(file, int(line), function))

    def settle(self) -> None:
        return

    def fault(self, source: str) -> None:
        return None
