from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.evidence.access import Access, access
from triage.evidence.catalogue import GroupTool, JournalAccess, PythonVersion, SudoRights
from triage.evidence.model import Unanswered
from triage.hosts import Output

Ask = Callable[..., Any]
HINT = b"""Hint: You are currently not seeing messages from other users and the system.
      Users in groups 'adm', 'systemd-journal' can see all messages.
      Pass -q to turn off this notice.
"""
DENIED = b"No journal files were opened due to insufficient permissions.\n"


@pytest.mark.parametrize(
    ("output", "readable"),
    [
        ({"stdout": b"Started ssh.service.\n"}, True),
        ({"stdout": b"", "stderr": HINT}, False),
        ({"code": 1, "stdout": b"", "stderr": DENIED}, False),
    ],
)
def test_whether_the_journal_may_be_read(ask: Ask, output: dict[str, Any], readable: bool) -> None:
    assert ask(JournalAccess(), **output) is readable


def test_whether_an_empty_journal_may_be_read_is_not_known(ask: Ask) -> None:
    with pytest.raises(Unanswered, match="empty"):
        ask(JournalAccess(), stdout=b"")


@pytest.mark.parametrize(
    ("output", "rights"),
    [
        ({"stdout": b"User ops may run the following commands on gpu01:\n    (ALL) NOPASSWD: ALL\n"}, "yes"),
        ({"code": 1, "stderr": b"sudo: a password is required\n"}, "password"),
        ({"stdout": b"    (ALL : ALL) ALL\n    (root) NOPASSWD: /usr/bin/apt-get update\n"}, "password"),
        ({"stdout": b"    !authenticate\n\n    (ALL : ALL) ALL\n"}, "yes"),
        ({"stdout": b"    (ALL : ALL) ALL\n    (ALL) SETENV: NOPASSWD: ALL\n"}, "yes"),
        ({"stdout": b"    (root) NOPASSWD: /usr/bin/timeout ^-k 2$\n"}, "yes"),
        ({"code": 1, "stderr": b"Sorry, user plain may not run sudo on gpu01.\n"}, "no"),
        ({"code": 127, "stderr": b"sh: 1: exec: sudo: not found\n"}, "no"),
    ],
)
def test_what_sudo_allows(ask: Ask, output: dict[str, Any], rights: str) -> None:
    assert ask(SudoRights(), **output) == rights


@pytest.mark.parametrize(
    ("said", "tool"), [(b"/usr/bin/timeout\n", "timeout"), (b"/bin/setsid\n", "setsid"), (b"none\n", "")]
)
def test_what_puts_a_command_into_a_group_of_its_own(ask: Ask, said: bytes, tool: str) -> None:
    assert ask(GroupTool(), stdout=said) == tool
    with pytest.raises(Unanswered):
        ask(GroupTool(), stdout=b"alias timeout=true\n")


def test_python(ask: Ask) -> None:
    assert ask(PythonVersion(), stdout=b"Python 3.6.8\n") == "3.6.8"
    with pytest.raises(Unanswered):
        ask(PythonVersion(), stdout=b"garbage")


def test_a_host_without_anything(host: ScriptedHost) -> None:
    assert access(host.evidence, host.address) == Access("ops@gpu01:22", "?", "no", False, "", "", "")


def test_a_gpu_tool_that_fails_is_quoted(host: ScriptedHost) -> None:
    said = b"Failed to initialize NVML: Driver/library version mismatch\n"
    host.commands["nvidia-smi"] = Output(18, said)
    assert access(host.evidence, "x").gpu == f"nvidia-smi: {said.decode().strip()}"
