"""What an account may do on a host, for `triage hosts check`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from triage.evidence.model import Query, Unanswered
from triage.hosts.connection import Output

Rights = Literal["yes", "password", "no"]
RIGHTS: tuple[Rights, ...] = ("yes", "password", "no")
_ALL = re.compile(rb"^\s+\([^)\n]*\) (?:[A-Z]+: )*ALL\s*$", re.MULTILINE)
_FREE = re.compile(
    rb"^\s+\([^)\n]*\) (?:[A-Z]+: )*NOPASSWD: (?:[A-Z]+: )*ALL\s*$|!authenticate", re.MULTILINE
)
HINTS = (b"insufficient permissions", b"not seeing messages")


@dataclass(frozen=True)
class JournalAccess(Query[bool]):
    """Whether the system's journal may be read. journalctl says so on standard error, beside its short output
    alone; to an account that has a journal of its own it shows that one, as if it were all:

    Hint: You are currently not seeing messages from other users and the system.
    """

    name: ClassVar[str] = "journal-access"
    purpose: ClassVar[str] = "know whether the journal may be read"
    absence: ClassVar[str] = "`hosts check` says that the journal may not be read"

    def argv(self) -> tuple[str, ...]:
        return ("journalctl", "--no-pager", "--lines=1", "--output=short", "_PID=1")

    def decode(self, output: Output) -> str:
        if any(hint in output.stderr for hint in HINTS):
            return "no"
        super().decode(output)
        if not output.stdout.strip():
            raise Unanswered("the journal is empty, for all that journalctl says")
        return "yes"

    def parse(self, text: str) -> bool:
        return text == "yes"


@dataclass(frozen=True)
class SudoRights(Query[Rights]):
    """Whether sudo runs commands without a password: `yes`, `password`, `no`."""

    name: ClassVar[str] = "sudo-rights"
    purpose: ClassVar[str] = "know whether --become would work"
    absence: ClassVar[str] = "`hosts check` says that there is no sudo"

    def argv(self) -> tuple[str, ...]:
        return ("sudo", "-n", "-l")

    def decode(self, output: Output) -> str:
        if output.code == 127:
            return "no"
        if output.code == 0:
            return "password" if _ALL.search(output.stdout) and not _FREE.search(output.stdout) else "yes"
        return "password" if b"password is required" in output.stderr else "no"

    def parse(self, text: str) -> Rights:
        for known in RIGHTS:
            if text == known:
                return known
        raise Unanswered("sudo's answer is damaged")


@dataclass(frozen=True)
class PythonVersion(Query[str]):
    """The version of python3, which the agents of `triage patch` and `verify` fall back to.

    Python 3.11.2
    """

    name: ClassVar[str] = "python-version"
    purpose: ClassVar[str] = "know the host's own Python"
    absence: ClassVar[str] = (
        "`hosts check` says that there is no python3: nothing can be patched or measured with it"
    )

    def argv(self) -> tuple[str, ...]:
        return ("python3", "--version")

    def places(self) -> tuple[str, ...]:
        return ("python3",)

    def parse(self, text: str) -> str:
        word, _, version = text.strip().partition(" ")
        if word != "Python" or not version or len(version) > 40:
            raise Unanswered("python3 does not say its version")
        return version


@dataclass(frozen=True)
class GroupTool(Query[str]):
    """What puts a command into a process group of its own, as which it ends: `timeout`, `setsid`, "" for
    neither.

    /usr/bin/timeout
    """

    name: ClassVar[str] = "group-tool"
    purpose: ClassVar[str] = "know whether a command that is ended takes with it all that it has started"
    absence: ClassVar[str] = "`hosts check` says that what a command leaves behind may stay"

    def argv(self) -> tuple[str, ...]:
        return ("sh", "-c", "command -v timeout || command -v setsid || echo none")

    def parse(self, text: str) -> str:
        tool = text.strip().rpartition("/")[2]
        if tool not in ("timeout", "setsid", "none"):
            raise Unanswered("the shell's answer is damaged")
        return tool.replace("none", "")
