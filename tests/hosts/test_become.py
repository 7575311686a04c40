from __future__ import annotations

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.common.errors import UnreachableError
from triage.hosts import Output
from triage.hosts.become import become_root


def test_sudo_that_wants_a_terminal_says_how_to_do_without() -> None:
    told = Output(1, b"", b"sudo: sorry, you must have a tty to run sudo\n")
    host = ScriptedHost(commands={"id -u": "1000\n", "sudo": told})
    with pytest.raises(UnreachableError, match="must have a tty") as caught:
        become_root(host, lambda prompt: "typed")
    assert "!requiretty" in caught.value.next


LISTED = b"    (ALL : ALL) ALL\n    (root) NOPASSWD: /usr/bin/apt-get update\n"
WANTED = Output(1, b"", b"sudo: a password is required\n")


def test_sudo_that_takes_no_password_for_some_commands_alone_is_asked_with_one() -> None:
    host = ScriptedHost(
        commands={"id -u": "1000\n", "sudo -n -l": LISTED, "sudo -n -- true": WANTED, "sudo -k": LISTED}
    )
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "typed"

    connection = become_root(host, ask)
    connection.run(["true"])
    assert asked == ["sudo password on ops@gpu01:22: "]
    assert host.asked[-1][:3] == ("sudo", "-k", "-S")
    with pytest.raises(UnreachableError, match="a password is required"):
        become_root(host)


def test_sudo_that_wants_none_whatever_it_lists_is_not_asked_with_one() -> None:
    host = ScriptedHost(commands={"id -u": "1000\n", "sudo -n -l": LISTED, "sudo -n -- true": b""})
    become_root(host, lambda prompt: pytest.fail("asked")).run(["true"])
    assert host.asked[-1][:2] == ("sudo", "-n")
