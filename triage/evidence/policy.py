"""The catalogue as people and sudo need it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from triage.evidence.model import Query
from triage.evidence.queries import (
    CATALOGUE,
    Journal,
    KernelLog,
    ProcessDirectory,
    ProcessEnvironment,
    ProcessOutput,
    UnitRuns,
)

# What may be granted: it reads the journal and /proc, whatever stands for the parameters. Reading any
# file, or running an interpreter, as root would be root itself.
GRANTABLE = (Journal, KernelLog, UnitRuns, ProcessEnvironment, ProcessDirectory, ProcessOutput)
_PARAMETERS = {
    "UNIT.service": r"[A-Za-z0-9:_.@-]+",
    "=RUN ": "=[0-9a-f]{32} ",
    "/PID/": "/[0-9]+/",
    "@SECONDS": "@[0-9]+",
}


@dataclass(frozen=True)
class Entry:
    """One query of the catalogue. `privilege` is what an ordinary user lacks for it, "" when nothing."""

    query: str
    purpose: str
    command: str
    privilege: str


def catalogue() -> tuple[Entry, ...]:
    return tuple(
        Entry(query.name, query.purpose, " ".join(map(_shown, _argv(query))), query.privilege)
        for query in CATALOGUE
    )


def sudoers() -> tuple[str, ...]:
    """Lines for /etc/sudoers.d: the grantable commands, spelled as regular expressions."""
    commands = [_expression(query) for query in CATALOGUE if type(query) in GRANTABLE]
    body = [f"    /usr/bin/timeout {command}, \\" for command in commands]
    body[-1] = body[-1].removesuffix(", \\")
    return ("Cmnd_Alias TRIAGE = \\", *body, "USER ALL=(root) NOPASSWD: TRIAGE")


def _argv(query: Query[Any]) -> tuple[str, ...]:
    """The command with words for its numbers."""
    words = (word.replace("/proc/0/", "/proc/PID/") for word in query.argv())
    return tuple(re.sub(r"=@0\Z", "=@SECONDS", word) for word in words)


def _shown(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./*<>-]+", word) else shlex.quote(word)


def _expression(query: Query[Any]) -> str:
    command = _escape(" ".join(_argv(query)))
    for parameter, pattern in _PARAMETERS.items():
        command = command.replace(_escape(parameter), pattern)
    return f"^-k 2 [0-9]+ {command}$".replace(",", "\\,")  # a bare comma would end it


def _escape(text: str) -> str:
    return re.sub(r"([.+*?()\[\]{}|^$\\])", r"\\\1", text)
