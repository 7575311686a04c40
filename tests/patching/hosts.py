"""This machine as a host, and ways to cut the agent short on it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Output
from triage.hosts.local import LocalConnection
from triage.hosts.sender import BOOTSTRAP
from triage.patching.transaction import HostTree

# What the agent does to the machine. Each is a place where the power can go.
CALLS = [
    "open",
    "write",
    "fsync",
    "rename",
    "unlink",
    "mkdir",
    "symlink",
    "fchown",
    "fchmod",
    "ftruncate",
    "pwrite",
]

TRACER = """
import json, os
plan = json.loads({plan!r})
count = 0

def watch(name):
    real = getattr(os, name)

    def call(*args, **kwargs):
        global count
        count += plan["when"] != "half" or name == "write"
        here = count == plan["at"]
        if here and plan["fail"]:
            if plan["when"] == "after":
                real(*args, **kwargs)
            raise OSError(plan["fail"], os.strerror(plan["fail"]))
        if here and plan["when"] == "before":
            os._exit(137)
        if here and plan["when"] == "half":
            real(args[0], bytes(args[1])[: len(args[1]) // 2])
            os._exit(137)
        try:
            result = real(*args, **kwargs)
        finally:
            if here and plan["when"] == "after":
                os._exit(137)
        if plan["log"]:
            shown = [arg for arg in args if isinstance(arg, (int, str))]
            with plain(plan["log"], "a") as log:
                log.write(json.dumps([name, shown, result if isinstance(result, int) else None]) + "\\n")
        return result

    setattr(os, name, call)

plain = open
if plan["slow"]:
    import time

    clock = time.time
    time.time = lambda: clock() - plan["slow"]
for name in plan["calls"]:
    watch(name)
"""


class Host(LocalConnection):
    """Runs the agent here. `at` is the call at which it dies or fails, counted from 1."""

    def __init__(self) -> None:
        super().__init__()
        self.at = 0
        self.when = "before"  # before, after, or half of a write
        self.fail = 0  # an errno instead of death; with `after`, of a call that did what it was asked to
        self.slow = 0.0  # seconds by which its clock is behind
        self.log = ""
        self.runs = 0

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        self.runs += 1
        if self.at or self.log or self.slow:
            plan = {
                "at": self.at,
                "when": self.when,
                "fail": self.fail,
                "slow": self.slow,
                "log": self.log,
                "calls": CALLS,
            }
            traced = TRACER.format(plan=json.dumps(plan)) + "\n" + BOOTSTRAP
            argv = [traced if item == BOOTSTRAP else item for item in argv]
        return super().run(argv, stdin=stdin, timeout=timeout, limit=limit)


def host_tree(root: Path, ledger: Path, host: Host | None = None, python: str = sys.executable) -> HostTree:
    return HostTree(host or Host(), [str(root)], python, str(ledger))
