"""A host made of answers: what each command prints, by the words it is told apart by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from triage.evidence.live import LiveEvidence
from triage.hosts import Output
from triage.hosts.connection import Command
from triage.hosts.rights import command_in

ABSENT = "cat: {}: No such file or directory\n"


@dataclass
class ScriptedHost:
    """A Connection. Files answer `cat`, `tail` and `readlink`; other commands by their first words."""

    files: dict[str, bytes | str] = field(default_factory=dict)
    commands: dict[str, Output | bytes | str] = field(default_factory=dict)
    name: str = "gpu01"
    address: str = "ops@gpu01:22"
    asked: list[tuple[str, ...]] = field(default_factory=list)
    sent: list[tuple[str, ...]] = field(default_factory=list)  # with what puts other rights around them

    def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30, limit: int = 1 << 26
    ) -> Output:
        self.sent.append(tuple(argv))
        argv = command_in(argv)
        self.asked.append(argv)
        if argv[0] in ("cat", "tail", "readlink") or "read-source" in argv:
            if argv[-1] not in self.files:
                return Output(1, b"", ABSENT.format(argv[-1]).encode())
            return _output(self.files[argv[-1]])
        line = " ".join(argv)
        for beginning in sorted(self.commands, key=len, reverse=True):
            if line.startswith(beginning):
                return _output(self.commands[beginning])
        return Output(127, b"", f"{argv[0]}: not found\n".encode())

    def stream(self, argv: Sequence[str], *, timeout: float) -> Iterator[bytes]:
        yield self.run(argv).stdout

    def close(self) -> None: ...

    @property
    def evidence(self) -> LiveEvidence:
        return LiveEvidence(self)


@dataclass
class FarHost(ScriptedHost):
    """One on which commands can be run as one; each time the last of several is held up, if `held_up`."""

    together: list[tuple[tuple[str, ...], ...]] = field(default_factory=list)
    held_up: bool = False

    def run_each(self, commands: Sequence[Command]) -> tuple[Output, ...]:
        self.together.append(tuple(command.argv for command in commands))
        answered = commands[:-1] if self.held_up else commands
        return tuple(
            self.run(each.argv, stdin=each.stdin.encode(), timeout=each.timeout, limit=each.limit)
            for each in answered
        )


def _output(answer: Output | bytes | str) -> Output:
    if isinstance(answer, Output):
        return answer
    return Output(0, answer.encode() if isinstance(answer, str) else answer)


def unit_text(unit: str, **properties: object) -> str:
    """One unit as `systemctl show` prints it."""
    shown = {
        "MainPID": 0,
        "Result": "success",
        "ExecMainStartTimestamp": "Sun 2026-11-29 17:00:00 UTC",
        "Environment": "",
        "Id": unit,
        "LoadState": "loaded",
        "ActiveState": "active",
        "InvocationID": "0" * 31 + "1",
        "NeedDaemonReload": "no",
        **properties,
    }
    return "".join(f"{name}={value}\n" for name, value in shown.items())


def exec_start(*argv: str) -> str:
    return f"{{ path={argv[0]} ; argv[]={' '.join(argv)} ; ignore_errors=no ; pid=0 ; status=0/0 }}"


def ps_text(*rows: tuple[int, int, str, str]) -> str:
    """Rows of (pid, ppid, user, args) as `ps` prints them."""
    return "".join(
        f"{pid:7} {ppid:7} {user:32} Sun Nov 29 17:{pid % 60:02}:00 2026 {args}\n"
        for pid, ppid, user, args in rows
    )


def tree_text(package_root: str, version: str = "0.5.11", **more: Mapping[str, str]) -> str:
    """The answer of an interpreter that finds sglang there."""
    import json

    told = {"version": "3.11.2", "prefix": "/opt/venv", "path": []}
    return json.dumps(
        {
            **told,
            "packages": {"sglang": package_root},
            "distributions": {"sglang": version, "torch": "2.11.0"},
            **more,
        }
    )


@pytest.fixture
def host() -> ScriptedHost:
    return ScriptedHost()
