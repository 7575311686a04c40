"""Connections on which the agent is cut at a system call of its own, by strace."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.e2e.box import Bind, Box
from triage.hosts import options
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Connection, Output
from triage.hosts.opening import open_connection
from triage.hosts.rights import command_in

# All that changes what is on disk, and what makes it stay there.
CALLS = (
    "openat,write,pwrite64,fsync,ftruncate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "symlinkat,fchown,fchmod,fsetxattr,fremovexattr,flock"
)
_CALL = re.compile(r"(?:\d+ +)?(\w+)\((.*)")


def connect(box: Box, user: str = "root", become: bool = False) -> Connection:
    wanted = options.ConnectionOptions(ssh_config=box.ssh_config(), become=become)
    return open_connection(f"{user}@{box.name}", wanted)


def strace() -> list[Bind]:
    """strace and the libraries that a box does not have."""
    tool = shutil.which("strace")
    assert tool
    needed = subprocess.run(["ldd", tool], capture_output=True, text=True, check=True).stdout
    return [Bind(tool), *(Bind(path) for path in re.findall(r"=> (/\S*libunwind\S*)", needed))]


@dataclass(frozen=True)
class Call:
    """The `number`th of the agent's calls of that name, counted from 1, and how strace shows it."""

    name: str
    number: int
    shown: str

    def __str__(self) -> str:
        return f"{self.name} {self.number}"

    @property
    def changes(self) -> bool:
        return self.name != "openat" or "O_CREAT" in self.shown


@dataclass
class Cutting:
    """A connection on which requests for `op` meet their fate at a system call; others do not.

    `fate` is as strace's `inject` has it: `signal=KILL`, `error=EIO`, `delay_enter=1s`.
    """

    connection: Connection
    op: str = ""
    call: Call | None = None
    fate: str = "signal=KILL"
    log: str = "/dev/null"  # where on the host the calls are written
    name: str = field(init=False)
    address: str = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.address = self.connection.name, self.connection.address

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
    ) -> Output:
        if self.op and json.loads(stdin)["request"]["op"] == self.op:
            agent = command_in(argv)  # and not the shell that finds out whose rights it gets
            argv = [*argv[: len(argv) - len(agent)], *self._strace(), *agent]
        return self.connection.run(argv, stdin=stdin, timeout=timeout, limit=limit)

    def _strace(self) -> list[str]:
        options = ["strace", "-D", "-f", "-o", self.log, "-e"]  # beside the agent: its parent is the host's
        if self.call is None:
            return [*options, f"trace={CALLS}"]
        inject = f"inject={self.call.name}:{self.fate}:when={self.call.number}"
        return [*options, f"trace={self.call.name}", "-e", inject]

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        return self.connection.stream(argv, timeout=timeout)

    def close(self) -> None:
        self.connection.close()


def changing_calls(log: Path) -> list[Call]:
    """The calls of a run that nothing disturbed, those that only read left out."""
    counts: dict[str, int] = {}
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if match := _CALL.match(line):
            name = match[1]
            counts[name] = counts.get(name, 0) + 1
            found.append(Call(name, counts[name], match[2]))
    return [call for call in found if call.changes]
