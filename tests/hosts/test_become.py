from __future__ import annotations

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.errors import UnreachableError
from triage.hosts import Output
from triage.hosts.become import become_root


def test_sudo_that_wants_a_terminal_says_how_to_do_without() -> None:
    told = Output(1, b"", b"sudo: sorry, you must have a tty to run sudo\n")
    host = ScriptedHost(commands={"id -u": "1000\n", "sudo": told})
    with pytest.raises(UnreachableError, match="must have a tty") as caught:
        become_root(host, lambda prompt: "typed")
    assert "!requiretty" in caught.value.next
