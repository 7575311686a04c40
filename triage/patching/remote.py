"""The agent on a host: sent with each request, run by the interpreter of the tree that is patched."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from triage.errors import RefusedError, TriageError, UnreachableError, UsageError
from triage.hosts.connection import Connection, why_cut
from triage.jsontext import parse_json

# Short, so that logs of sudo and process lists stay legible; the agent itself comes on standard input.
# -I -S -B: nothing that is installed in the tree runs, and no bytecode is written.
BOOTSTRAP = (
    "import json,sys;r=json.load(sys.stdin);n={'__name__':'triage_agent'};"
    "exec(compile(r['agent'],'triage_agent','exec'),n);n['main'](r['request'])"
)
FLAGS = ("-I", "-S", "-B", "-c", BOOTSTRAP)
TIMEOUT = 60.0  # seconds
LIMIT = 256 * 1024 * 1024  # bytes of an answer


class Agent:
    """Asks the agent on one host. `ledger` is a directory instead of the host's usual one."""

    def __init__(self, connection: Connection, python: str = "", ledger: str = "") -> None:
        self.connection = connection
        self.python = python or "python3"
        self.ledger = ledger

    def ask(self, doing: str, to: str, **request: Any) -> dict[str, Any]:
        """One request's answer. Raises UnreachableError or RefusedError, which say what to do next."""
        payload = {"agent": _source(), "request": {**request, "ledger": self.ledger}}
        output = self.connection.run(
            [self.python, *FLAGS], stdin=json.dumps(payload).encode(), timeout=TIMEOUT, limit=LIMIT
        )
        to = f"{to} on {self.connection.name}"
        status = f"triage patch status {self.connection.name}"
        if output.code == 127:
            next = "name another interpreter with --python"
            raise UnreachableError(doing, to, f"there is no {self.python} on the host", next)
        if output.cut:
            raise UnreachableError(doing, to, why_cut(output.cut, TIMEOUT, LIMIT), status)
        try:
            answer = parse_json(output.stdout)
            ok = answer["ok"]
        except (ValueError, KeyError, TypeError):
            last = output.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            happened = last[0][:300] if last else f"the agent ended with status {output.code}"
            raise UnreachableError(doing, to, happened, status) from None
        if not isinstance(answer, dict) or not ok:
            raise _error(doing, to, str(answer["kind"]), str(answer["message"]), self.connection.name)
        return answer


def _error(doing: str, to: str, kind: str, message: str, host: str) -> TriageError:
    status = f"triage patch status {host}"
    if kind == "locked":
        return RefusedError(doing, to, f"another run holds the ledger ({message})", "wait for it, then again")
    if kind == "unknown":
        return UsageError(doing, to, message, status)
    if kind == "newer":
        return RefusedError(
            doing,
            to,
            f"{message} changed the same file later",
            f"triage patch rollback {host} --id {message}",
        )
    if kind == "denied":
        return UnreachableError(doing, to, message, "add --become, or log in as the owner of the files")
    if kind == "full":
        return UnreachableError(doing, to, message, "make room on that file system, then again")
    if kind == "failed":
        return UnreachableError(doing, to, message, status)
    return RefusedError(doing, to, message, status)


@functools.cache
def _source() -> str:
    return Path(__file__).with_name("agent.py").read_text("utf-8")
