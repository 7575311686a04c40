"""The grammar of a printed traceback, one line at a time.

`classify` says what a line could be; a `Traceback` knows what it waits for, and how well a line fits.
So lines of several processes that interleave can be told apart by who can use them.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from sys import intern
from typing import Literal

from triage.logs.model import Fault, Frame, Position
from triage.logs.reading.line import MATCH_LIMIT, Line

CUT = "exception"
"""The type of a traceback that ends before its exception."""

MAX_FRAMES = 1000
MAX_MESSAGE = 4000
MAX_MESSAGE_LINES = 40
MAX_CHAIN = 32
MAX_MEMBERS = 64


class Kind(enum.IntEnum):
    HEADER = 0
    GROUP = 1  # header of an exception group
    FRAME = 2
    REPEAT = 3  # [Previous line repeated N more times]
    CARET = 4
    CAUSE = 5
    CONTEXT = 6
    MEMBER = 7  # +---- 2 ---- between the members of a group
    BLANK = 8
    EXCEPTION = 9
    INDENTED = 10
    OTHER = 11


_HEADER = re.compile(r"(Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'\s*File "([^"]{0,1024})", line (\d{1,9})(?:, in (.{0,500}))?\s*$')
_REPEAT = re.compile(r"\s*\[Previous line repeated (\d{1,9}) more times?\]")
_CARET = re.compile(r"\s*[\^~][\^~\s]*$")
_MEMBER = re.compile(r"\s*\+[-+]+ ?(?:(?:\d{1,6}|\.\.\.) -+)?$")
_EXCEPTION = re.compile(
    r"((?:[A-Za-z_]\w{0,100}\.){0,16}(?:[A-Z]\w{0,100}|nixl\w{1,40}Error|error|timeout|gaierror|herror)(?:\(\w{1,100}\))?)"
    r"(?::(?: (.*)|$)|$)",
    re.DOTALL,
)
_NOT_EXCEPTIONS = frozenset(
    (
        "INFO",
        "WARNING",
        "WARN",
        "ERROR",
        "DEBUG",
        "CRITICAL",
        "FATAL",
        "NOTICE",
        "TRACE",
        "HTTP",
        "Thread",
        "Process",
    )
)
_ERROR_NAME = re.compile(
    r"(?:[A-Za-z_]\w{0,100}\.){0,16}\w{0,100}(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Failure|Fault|Group)(?:\(\w{1,100}\))?$"
)
_MARGIN = re.compile(r"(?:\s*\|(?: |$))+")
_CAUSE = "The above exception was the direct cause of the following exception:"
_CONTEXT = "During handling of the above exception, another exception occurred:"

# text that begins something else, wherever it stands unprefixed after a message
_FOREIGN = re.compile(
    r"(?:INFO|WARNING|ERROR|DEBUG|CRITICAL|FATAL)[: ]|Process \S{1,80}:|nanobind: |usage: |See https?://|"
    r"Loading |Multi-thread loading|Exception (?:ignored )?in|terminate called|Fatal Python error|"
    r"\*\*\* |Segmentation fault|Aborted|Killed|Bus error|!!!!!!!|"
    r"/\S{1,400}:\d{1,7}: \w{1,60}Warning: |\s{0,4}\d{1,3}%\|"
)

# text that goes on after an empty line within a message: a heading of what follows, or a list
_GOES_ON = re.compile(r"[A-Z][^:\n]{2,100}:\s*$|\s{0,8}(?:[-*\u2022]|\d{1,2}[.)]) \S")


BEGINNINGS = ("Traceback (most recent call last)", 'File "')
"""What stands in a line that can begin a traceback, or be a frame of one whose head is missing."""

Read = tuple[Kind, "re.Match[str] | None"]
"""What a line is, with the match that says more of it."""


def without_margin(text: str) -> str:
    """A line of an exception group without the bars in front."""
    margin = _MARGIN.match(text)
    return text[margin.end() :] if margin else text


def may_begin(text: str) -> bool:
    head, frame = BEGINNINGS
    return head in text or frame in text


def classify(text: str) -> Read:
    text = text[:MATCH_LIMIT]
    stripped = text.strip()
    if not stripped:
        return Kind.BLANK, None
    match = _HEADER.search(text)
    if match is not None and stripped.endswith(":"):
        return (Kind.GROUP if match[1] else Kind.HEADER), match
    if stripped.startswith("File "):
        match = _FRAME.match(text)
        if match is not None:
            return Kind.FRAME, match
    first = stripped[0]
    if first == "[":
        match = _REPEAT.match(text)
        if match is not None:
            return Kind.REPEAT, match
    if first in "^~" and _CARET.match(text):
        return Kind.CARET, None
    if stripped == _CAUSE:
        return Kind.CAUSE, None
    if stripped == _CONTEXT:
        return Kind.CONTEXT, None
    if first == "+" and _MEMBER.match(text):
        return Kind.MEMBER, None
    if text[0] in " \t":
        return Kind.INDENTED, None
    match = _EXCEPTION.match(text)
    if match is not None and match[1] not in _NOT_EXCEPTIONS:
        return Kind.EXCEPTION, match
    return Kind.OTHER, None


def names_an_error(text: str) -> bool:
    """Whether a text is surely the last line of a traceback: `SomeError: ...` or `SomeError` alone."""
    return _ERROR_NAME.match(text.partition(":")[0][:400]) is not None


class TracebackState(enum.IntEnum):
    HEAD = 0  # header seen, a frame is due
    FRAME = 1  # its source line may follow
    CODE = 2  # carets, more code or the next frame may follow
    MESSAGE = 3  # the exception's line was seen; its message may go on
    PAUSE = 4  # an empty line was seen in it; it may still go on
    DONE = 5  # only a chain can follow
    CHAINED = 6  # a chain phrase was seen, a header is due


@dataclass
class _TracebackPart:
    """One exception of a chain or group, while it is read."""

    link: Literal["", "cause", "context"] = ""
    group: bool = False
    frames: list[Frame] = field(default_factory=list)
    type: str = ""
    message: list[str] = field(default_factory=list)
    size: int = 0
    last: Line | None = None  # the line of the exception itself
    folded: int = 0
    dropped: int = 0


class Traceback:
    """A traceback that is being read: `fits` a line, `feed` it, and at the end `fault`."""

    def __init__(self, line: Line, kind: Kind, match: re.Match[str] | None, header: str) -> None:
        self.first = self.latest = line
        self.header = header
        self.cut = kind not in (Kind.HEADER, Kind.GROUP)
        self.base = 0
        self.depth = 0  # of exception groups
        self.done: list[_TracebackPart] = []
        self.members: list[_TracebackPart] = []
        self.part = _TracebackPart()
        self.state = TracebackState.HEAD
        if self.cut:
            self.feed(line, kind, match)
            return
        assert match is not None
        before = line.text[: match.start()]
        if before.strip("+| \t"):
            self.header = before.strip()[:500]
        elif not before.strip():
            self.base = len(before)
        self._begin(kind)

    def _begin(self, kind: Kind) -> None:
        if kind is Kind.GROUP:
            self.part.group = True
            self.depth += 1
        self.state = TracebackState.HEAD

    def reading(self, line: Line) -> Read:
        """What a line is to this traceback: without its margin or indentation."""
        text = line.text
        if self.depth:
            return classify(without_margin(text))
        if self.base and not text[: self.base].strip():
            return classify(text[self.base :])
        return classify(text)

    def fits(self, line: Line, kind: Kind) -> int:
        """How well a line goes on from here: 0 not at all, 3 just what is due."""
        return _FITS[self.state][kind]

    def calls(self, function: str) -> bool:
        """Whether the last line of code that was read calls this function."""
        frames = self.part.frames
        return bool(frames) and function != "__init__" and f"{function}(" in frames[-1].code

    def feed(self, line: Line, kind: Kind, match: re.Match[str] | None) -> bool:
        """Take a line; False when it does not belong to this traceback."""
        part = self.part
        state = self.state
        if kind in (Kind.HEADER, Kind.GROUP):
            if state is not TracebackState.CHAINED and not (
                self.depth and part.type == "" and not part.frames
            ):
                return False
            self._begin(kind)
        elif kind is Kind.MEMBER:
            if not self.depth:
                return state is TracebackState.MESSAGE
            self._next_member()
        elif state in (TracebackState.MESSAGE, TracebackState.PAUSE):
            if not self._message(line, kind, match):
                return False
        elif kind is Kind.FRAME:
            if state not in (TracebackState.HEAD, TracebackState.FRAME, TracebackState.CODE):
                return False
            assert match is not None
            self._frame(match)
        elif kind is Kind.BLANK:
            return state in (TracebackState.DONE, TracebackState.CHAINED)
        elif kind in (Kind.CAUSE, Kind.CONTEXT):
            if state is not TracebackState.DONE:
                return False
            self._chain(kind)
        elif state in (TracebackState.DONE, TracebackState.CHAINED):
            return False
        elif kind is Kind.REPEAT:
            assert match is not None
            part.folded += int(match[1])
            self.state = TracebackState.CODE
        elif kind is Kind.EXCEPTION and self._ends(line, match):
            self._exception(line, match)
        elif state is TracebackState.FRAME and kind is not Kind.CARET:
            self._code(line.text)
        elif kind in (Kind.CARET, Kind.INDENTED):
            if state is TracebackState.HEAD:
                return False
            self.state = TracebackState.CODE
        else:
            return False
        self.latest = line
        return True

    def _ends(self, line: Line, match: re.Match[str] | None) -> bool:
        """Whether an exception's line ends the frames. Where indentation was lost, code can look like one."""
        if self.state is TracebackState.FRAME and not self.depth:
            return match is not None and (match[2] is not None or names_an_error(match[1]))
        return True

    def _frame(self, match: re.Match[str]) -> None:
        part = self.part
        if len(part.frames) < MAX_FRAMES:
            part.frames.append(Frame(intern(match[1]), int(match[2]), intern((match[3] or "").strip())))
        else:
            part.dropped += 1
        self.state = TracebackState.FRAME

    def _code(self, text: str) -> None:
        part = self.part
        if self.depth:
            text = without_margin(text)
        if part.frames and not part.dropped:
            frame = part.frames[-1]
            part.frames[-1] = Frame(frame.file, frame.line, frame.function, text.strip()[:500])
        self.state = TracebackState.CODE

    def _exception(self, line: Line, match: re.Match[str] | None) -> None:
        assert match is not None
        part = self.part
        part.type = match[1]
        part.last = line
        part.message = [match[2][:MAX_MESSAGE]] if match[2] else [""]
        part.size = len(part.message[0])
        self.state = TracebackState.MESSAGE

    def _message(self, line: Line, kind: Kind, match: re.Match[str] | None) -> bool:
        part = self.part
        if kind in (Kind.CAUSE, Kind.CONTEXT):
            self._chain(kind)
            return True
        previous = self.latest
        if line.head:
            # the same record goes on: the writer says so by CR LF, or the same place wrote in the same second
            going_on = previous.more or (
                line.site == previous.site and line.time == previous.time and line.repeating
            )
        else:
            # a name of the writer alone begins no record
            named = line.repeating and line.site != previous.site
            going_on = previous.more or not (named or _FOREIGN.match(line.text[:600]))
        if kind is Kind.BLANK and going_on:
            self.state = TracebackState.PAUSE
            return True
        text = without_margin(line.text) if self.depth else line.text
        if not going_on or (self.state is TracebackState.PAUSE and not _GOES_ON.match(text)):
            self.state = TracebackState.DONE
            return False
        self.state = TracebackState.MESSAGE
        if kind is Kind.FRAME and self.depth == 0:
            self.state = TracebackState.DONE
            return False
        if (
            len(part.message) < MAX_MESSAGE_LINES
            and part.size < MAX_MESSAGE
            and not text.startswith("frame #")
        ):
            part.message.append(text.rstrip()[: MAX_MESSAGE - part.size])
            part.size += len(part.message[-1])
        return True

    def _chain(self, kind: Kind) -> None:
        if len(self.done) < MAX_CHAIN:
            self.done.append(self.part)
        self.part = _TracebackPart(link="cause" if kind is Kind.CAUSE else "context")
        self.state = TracebackState.CHAINED

    def _next_member(self) -> None:
        if self.part.type and len(self.members) < MAX_MEMBERS:
            self.members.append(self.part)
        self.part = _TracebackPart()
        self.state = TracebackState.CODE

    def settle(self) -> None:
        """A record of another writer came between: the message is over."""
        if self.state in (TracebackState.MESSAGE, TracebackState.PAUSE):
            self.state = TracebackState.DONE

    @property
    def over(self) -> bool:
        """Whether only a chain could follow."""
        return self.state in (TracebackState.PAUSE, TracebackState.DONE)

    @property
    def whole(self) -> bool:
        """Whether neither head nor tail is missing so far."""
        return not self.cut and bool(self.part.type)

    @property
    def named(self) -> Line:
        """The line that names the exception, as far as the log has it."""
        return self.part.last or self.latest

    def fault(self, source: str) -> Fault | None:
        """The exception with its chain; None when there is nothing to tell."""
        members = self.members
        part = self.part
        if self.depth:
            if part.type and len(members) < MAX_MEMBERS:
                members.append(part)
            if not members:
                return None
            part, members = members[0], members[1:]
        parts = self.done
        if not part.type and not part.frames:
            # the log ends after "direct cause of the following exception:"
            if not parts:
                return None
            part, parts = parts[-1], parts[:-1]
        if not part.type and not part.frames:
            return None
        chain = tuple(self._fault(each, source) for each in reversed(parts))
        return self._fault(part, source, chain, tuple(self._fault(each, source) for each in members))

    def begun(self, source: str) -> Fault | None:
        """What there is to tell where the log ends right behind the first line."""
        if self.cut or self.done or self.part.frames or self.depth or self.first.quoted:
            return None
        return self._fault(_TracebackPart(message=["of a traceback only the first line can be read"]), source)

    def _fault(
        self,
        part: _TracebackPart,
        source: str,
        chain: tuple[Fault, ...] = (),
        members: tuple[Fault, ...] = (),
    ) -> Fault:
        last = part.last or self.latest
        first = self.first
        return Fault(
            kind="exception",
            type=part.type or CUT,
            message="\n".join(part.message).strip(),
            position=Position(source, last.number, last.cursor),
            time=first.time or last.time,
            pid=first.writer,
            ranks=first.ranks,
            header=self.header,
            frames=tuple(part.frames),
            chain=chain,
            members=members,
            link=part.link,
            count=max(first.repeat, 1),
            cut=self.cut or not part.type,
        )


def _row(**fits: int) -> tuple[int, ...]:
    return tuple(fits.get(kind.name, 0) for kind in Kind)


_FITS = {
    TracebackState.HEAD: _row(FRAME=3, EXCEPTION=2, MEMBER=1),
    TracebackState.FRAME: _row(INDENTED=3, OTHER=1, FRAME=1, EXCEPTION=2, REPEAT=2, CARET=1, MEMBER=1),
    TracebackState.CODE: _row(
        FRAME=3, CARET=3, EXCEPTION=3, REPEAT=3, INDENTED=1, HEADER=1, GROUP=1, MEMBER=3
    ),
    TracebackState.MESSAGE: _row(
        CAUSE=3, CONTEXT=3, BLANK=1, INDENTED=1, OTHER=1, EXCEPTION=1, CARET=1, MEMBER=3
    ),
    TracebackState.PAUSE: _row(CAUSE=3, CONTEXT=3, BLANK=1, INDENTED=1, OTHER=1, MEMBER=2),
    TracebackState.DONE: _row(CAUSE=3, CONTEXT=3, BLANK=1, MEMBER=2),
    TracebackState.CHAINED: _row(HEADER=3, GROUP=3, BLANK=1),
}
