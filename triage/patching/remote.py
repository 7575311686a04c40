"""The agent on a host: sent with each request, run by the interpreter of the tree that is patched.

Where we are root and that is another account's, the agent, which keeps root's ledger, is run by an
interpreter of root and works in the tree as its owner; the tree's own only compiles, as its owner too.
"""

from __future__ import annotations

import json
from typing import Any

from triage.common.commands import Next, command
from triage.common.errors import RefusedError, TriageError, UnreachableError, UsageError
from triage.common.json import parse_json
from triage.hosts import rights
from triage.hosts.connection import Connection, why_cut
from triage.remote import program_text

# Short, so that logs of sudo and process lists stay legible; the agent itself comes on standard input.
# -I -S -B: nothing that is installed in the tree runs, and no bytecode is written.
BOOTSTRAP = (
    "import json,sys;r=json.load(sys.stdin);n={'__name__':'triage_agent'};"
    "exec(compile(r['agent'],'triage_agent','exec'),n);n['main'](r['request'])"
)
FLAGS = ("-I", "-S", "-B", "-c", BOOTSTRAP)
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

    def ask(self, doing: str, to: str, program: str = "patch_agent", **request: Any) -> dict[str, Any]:
        """One request's answer. Raises UnreachableError or RefusedError, which say what to do next.

        `program` names the module of `triage.remote` that is sent to answer it.
        """
        about = {"ledger": self.ledger, "python": self.compiler}
        payload = {"agent": program_text("owner") + program_text(program), "request": {**request, **about}}
        argv: tuple[str, ...] = (self.python, *FLAGS)
        if not rights.is_contained(self.connection):
            # What the observer tells depends on the interpreter, and nothing that is done depends on it.
            argv = rights.as_owner(argv[:1], argv) if program == "patch_observer" else rights.as_ours(argv)
        output = self.connection.run(argv, stdin=json.dumps(payload).encode(), timeout=TIMEOUT, limit=LIMIT)
        to = f"{to} on {self.connection.name}"
        status = command("patch status", self.connection.name)
        if output.code == rights.REFUSED:
            raise rights.refusal(doing, to, output)
        if output.code == 127:
            raise UnreachableError(doing, to, f"there is no {self.python} on the host", OTHER_PYTHON)
        if output.cut:
            raise UnreachableError(doing, to, why_cut(output.cut, TIMEOUT, LIMIT), status)
        if output.code is not None and output.code < 0:
            raise UnreachableError(doing, to, f"it was ended there by signal {-output.code}", status)
        try:
            answer = parse_json(output.stdout)
            ok = answer["ok"]
        except (ValueError, KeyError, TypeError):
            last = output.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            happened = last[0][:300] if last else f"the agent ended with status {output.code}"
            raise UnreachableError(doing, to, happened, OTHER_PYTHON if output.code else status) from None
        if not isinstance(answer, dict) or not ok:
            raise _error(doing, to, str(answer["kind"]), str(answer["message"]), self.connection.name)
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
