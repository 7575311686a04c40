"""The catalogue as people and sudo need it."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from triage.evidence.catalogue import (
    CATALOGUE,
    Journal,
    JournalAccess,
    KernelLog,
    NamespaceJournal,
    ProcessDirectory,
    ProcessEnvironment,
    ProcessOutput,
    UnitRuns,
)

# What may be granted: it reads the journal and /proc, whatever stands for the parameters. Reading any
# file, or running an interpreter, as root would be root itself.
GRANTABLE = (
    JournalAccess,
    Journal,
    NamespaceJournal,
    KernelLog,
    UnitRuns,
    ProcessEnvironment,
    ProcessDirectory,
    ProcessOutput,
)
_PARAMETERS = {
    "UNIT.service": r"[A-Za-z0-9:_.@-]+",
    "=+NAMESPACE ": r"=\+[A-Za-z0-9:_.@-]+ ",
    "=RUN ": "=[0-9a-f]{32} ",
    "/PID/": "/[0-9]+/",
    "@SECONDS": "@[0-9]+",
}


@dataclass(frozen=True)
class PolicyEntry:
    """One query of the catalogue. `privilege` is what an ordinary user lacks for it, "" when nothing.

    `lesser` is the command where the host's tools are old or not there, "" where there is none.
    `absence` is what is not known without an answer.
    """

    query: str
    purpose: str
    command: str
    privilege: str
    lesser: str
    absence: str


@dataclass(frozen=True)
class Policy:
    """Every query of the catalogue, and what sudo would have to allow for those that need privilege."""

    entries: tuple[PolicyEntry, ...]
    sudoers: tuple[str, ...]


def policy() -> Policy:
    return Policy(catalogue(), sudoers())


def catalogue() -> tuple[PolicyEntry, ...]:
    return tuple(
        PolicyEntry(
            query.name,
            query.purpose,
            _command(query.argv()),
            query.privilege,
            _command(query.lesser()),
            query.absence,
        )
        for query in CATALOGUE
    )


def sudoers() -> tuple[str, ...]:
    """Lines for /etc/sudoers.d: the grantable commands, spelled as regular expressions."""
    granted = [query for query in CATALOGUE if type(query) in GRANTABLE]
    commands = [_expression(argv) for query in granted for argv in (query.argv(), query.lesser()) if argv]
    body = [f"    /usr/bin/timeout {command}, \\" for command in commands]
    body[-1] = body[-1].removesuffix(", \\")
    return ("Cmnd_Alias TRIAGE = \\", *body, "USER ALL=(root) NOPASSWD: TRIAGE")


def _command(argv: tuple[str, ...]) -> str:
    return " ".join(map(_shown, _named(argv)))


def _named(argv: tuple[str, ...]) -> tuple[str, ...]:
    """A command with words for its numbers."""
    words = (word.replace("/proc/0/", "/proc/PID/") for word in argv)
    return tuple(re.sub(r"=@0\Z", "=@SECONDS", word) for word in words)


def _shown(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./*<>-]+", word) else shlex.quote(word)


def _expression(argv: tuple[str, ...]) -> str:
    command = _escape(" ".join(_named(argv)))
    for parameter, pattern in _PARAMETERS.items():
        command = command.replace(_escape(parameter), pattern)
    return f"^-k 2 [0-9]+ {command}$".replace(",", "\\,")  # a bare comma would end it


def _escape(text: str) -> str:
    return re.sub(r"([.+*?()\[\]{}|^$\\])", r"\\\1", text)
