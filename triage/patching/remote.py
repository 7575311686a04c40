"""The agent on a host: sent with each request, run by the interpreter of the tree that is patched.

Where we are root and that is another account's, the agent, which keeps root's ledger, is run by an
interpreter of root and works in the tree as its owner; the tree's own only compiles, as its owner too.
"""

from __future__ import annotations

from typing import Any

from triage.common.commands import Next, command
from triage.common.errors import RefusedError, TriageError, UnreachableError, UsageError
from triage.hosts.connection import Connection
from triage.hosts.sender import send
from triage.remote import PATCH_AGENT, Program

TIMEOUT = 60.0  # seconds
LIMIT = 256 * 1024 * 1024  # bytes of an answer
OTHER_PYTHON = "name another interpreter, Python 3.6 or newer, with --python"

# By what the agent calls them: what the host did not let it do, and what it would not do itself.
_HINDRANCES = {
    "failed": "",
    "denied": "add --become, or log in as the owner of the files",
    "protected": "not even root may: see lsattr for an immutable file, and how its file system is mounted",
    "read-only": "make that file system writable, then again",
    "full": "make room on that file system, then again",
}
_REFUSALS = {
    "elsewhere": "add --become, or log in as the user who made the change",
    "bytecode": "remove it by hand, or add --become",
    "owner": "give the tree to one account (chown -R), or do it as the owner of that file, without --become",
    "shared": "take that right from the others (chmod go-w), or do it as an ordinary user, without --become",
}


class PatchAgent:
    """Asks the agent on one host. `ledger` is a directory instead of the host's usual one, and `compiler`
    what a change has to compile under where that is not `python`, which runs the agent."""

    def __init__(
        self, connection: Connection, python: str = "", ledger: str = "", compiler: str = ""
    ) -> None:
        self.connection = connection
        self.python = python or "python3"
        self.ledger = ledger
        self.compiler = compiler or self.python

    def ask(self, doing: str, to: str, program: Program = PATCH_AGENT, **request: Any) -> dict[str, Any]:
        """One request's answer. Raises UnreachableError or RefusedError, which say what to do next."""
        host = self.connection.name
        to = f"{to} on {host}"
        status = command("patch status", host)
        answer = send(
            self.connection,
            program,
            {**request, "ledger": self.ledger, "python": self.compiler},
            python=self.python,
            about=(doing, to),
            next=OTHER_PYTHON,
            ended=status,
            timeout=TIMEOUT,
            limit=LIMIT,
        )
        if "ok" not in answer:
            raise UnreachableError(doing, to, "its answer makes no sense", status)
        if not answer["ok"]:
            raise _error(doing, to, str(answer.get("kind")), str(answer.get("message")), host)
        return answer


def _error(doing: str, to: str, kind: str, message: str, host: str) -> TriageError:
    """What the agent refused or could not do, with the way on."""
    next: Next
    status = command("patch status", host)
    if kind == "unknown":
        return UsageError(doing, to, message, status)
    if kind in _HINDRANCES:
        return UnreachableError(doing, to, message, _HINDRANCES[kind] or status)
    if kind == "locked":
        message, next = f"another run holds the ledger ({message})", "wait for it, then again"
    elif kind == "newer":
        next = command("patch rollback", host, "--id", message)
        message = f"{message} changed the same file later"
    else:
        next = _REFUSALS.get(kind) or status
    return RefusedError(doing, to, message, next)
