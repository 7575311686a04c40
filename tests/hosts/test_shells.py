"""What runs commands on a host, under any `sh`, with the usual tools and without those that make groups."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.hosts.test_ssh import STUBBORN, gone
from triage.hosts.quoting import drop_banner, lead_of, remote_command

SHELLS = ("dash", "bash", "busybox", "ksh93", "mksh", "yash", "zsh")
FEW = ("[", "cat", "echo", "head", "kill", "printf", "sleep")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A directory in which this shell is `sh`."""
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not here")
    (tmp_path / "sh").symlink_to(program)
    return tmp_path


def without_tools(shell: Path) -> str:
    for tool in FEW:
        found = shutil.which(tool)
        assert found
        (shell / tool).symlink_to(found)
    return str(shell)


def start(script: str, path: str, size: int) -> subprocess.Popen[bytes]:
    """As sshd does: in a session of its own, with pipes, the input still open."""
    line = remote_command(["sh", "-c", script], 60, size)
    process = subprocess.Popen(
        ["/bin/sh", "-c", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={"PATH": path},
    )
    assert process.stdin
    process.stdin.write(b"x" * size)
    process.stdin.flush()
    return process


@pytest.mark.parametrize("size", [0, 30_000])
@pytest.mark.parametrize("tools", ["all", "few"])
def test_a_command_in_any_shell(shell: Path, size: int, tools: str) -> None:
    path = f"{shell}:{os.environ['PATH']}" if tools == "all" else without_tools(shell)
    mark = f"66.{os.getpid()}.{shell.parent.name}"
    left = f"sh -c 'sleep 66; : {mark}' >/dev/null 2>&1 & " if tools == "all" else ""
    for script, code in (("cat; exit 3", 3), ("cat; kill -9 $$", 137), ("cat; no-such-command", 127)):
        process = start(left + script, path, size)
        assert process.stdout
        assert process.stderr
        out, err = bytearray(process.stdout.read()), bytearray(process.stderr.read())
        assert process.wait(10) == code
        assert lead_of(err) == ("timeout" if tools == "all" else "group")
        assert drop_banner(out)
        assert out == b"x" * size
        assert gone(mark, within=2)
        process.stdin.close()  # type: ignore[union-attr]


@pytest.mark.parametrize("tools", ["all", "few"])
def test_a_command_ends_with_its_input_in_any_shell(shell: Path, tools: str) -> None:
    path = f"{shell}:{os.environ['PATH']}" if tools == "all" else without_tools(shell)
    mark = f"66.{os.getpid()}.{shell.name}"
    started = [start(f"echo up; {STUBBORN.format(mark=mark)}", path, size) for size in (0, 5)]
    for process in started:
        assert process.stdout
        while b"up" not in process.stdout.readline():
            pass
    for process in started:
        assert process.stdin
        process.stdin.close()
    assert gone(mark)
    for process in started:
        process.wait(10)
