"""Commands as root through sudo, and how they end: by nobody but root."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from tests.e2e.box import Box
from triage.hosts import Connection, ConnectionOptions, open_connection

STUBBORN = "(trap '' TERM HUP PIPE INT; while :; do sleep 0.2; done; : still-here) & wait"
PASSWORD = "sesame"
RIGHTS = {
    "password": f"echo engineer:{PASSWORD} | chpasswd; echo 'engineer ALL=(ALL) ALL' >/etc/sudoers.d/own",
    "any": "echo 'engineer ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/own",
    "timeout": "echo 'engineer ALL=(root) NOPASSWD: /usr/bin/timeout' >/etc/sudoers.d/own",
}


def connect(box: Box, stop: threading.Event | None = None) -> closing[Connection]:
    options = ConnectionOptions(
        box.ssh_config(), user="engineer", become=True, stop=stop, ask=lambda prompt: PASSWORD
    )
    return closing(open_connection(box.name, options))


def gone(box: Box) -> bool:
    deadline = time.monotonic() + 10
    while box.run("pgrep -f 'still[-]here'").returncode == 0:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def test_what_root_runs_ends_as_a_whole(box: Box) -> None:
    for rights in ("password", "any"):
        box.run(RIGHTS[rights], check=True)
        with connect(box) as connection:
            assert connection.run(["sh", "-c", "id -u; cat"], stdin=b"typed").stdout == b"0\ntyped"
            assert connection.run(["sh", "-c", "exit 7"]).code == 7
            assert connection.run(["sh", "-c", STUBBORN], timeout=1).cut == "time"
            assert gone(box), rights
        stop = threading.Event()
        with connect(box, stop) as connection:
            threading.Timer(2, stop.set).start()
            with pytest.raises(KeyboardInterrupt):
                connection.run(["sh", "-c", STUBBORN], timeout=60)
            assert gone(box), rights


def test_rights_to_few_commands_are_enough_for_these(box: Box) -> None:
    box.run(RIGHTS["timeout"], check=True)
    with connect(box) as connection:
        assert connection.run(["id", "-u"]).stdout == b"0\n"
        assert connection.run(["cat"], stdin=b"typed").stdout == b"typed"
