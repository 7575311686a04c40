"""What runs in a container ends with its client, by the real program; the client is a pipe that is closed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.verify.test_engine_tool import wait_for, wait_gone
from triage.remote import container_command

PROGRAM = [sys.executable, "-I", "-S", "-B", str(container_command.__file__)]
STARTS = """
import os, pathlib, signal, subprocess, sys
sys.stdin.read()
if sys.argv[2] == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
pathlib.Path(sys.argv[1]).write_text(f"{os.getpid()} {child.pid}")
child.wait()
signal.pause()
"""


def test_a_command_is_given_its_input_and_gives_its_output_and_exit_status() -> None:
    words = bytes(range(256)) * 1000
    ends = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read()); sys.exit(7)"
    argv = [*PROGRAM, str(len(words)), sys.executable, "-c", ends]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write(words)
        program.stdin.flush()
        assert program.stdout.read() == words
        assert program.wait(60) == 7  # its client is there still


@pytest.mark.parametrize("how", ["willing", "deaf"])
def test_it_ends_with_what_it_has_started_when_its_client_has_gone(tmp_path: Path, how: str) -> None:
    said = tmp_path / "pids"
    argv = [*PROGRAM, "3", sys.executable, "-c", STARTS, str(said), how]
    with subprocess.Popen(argv, stdin=subprocess.PIPE) as program:
        assert program.stdin is not None
        program.stdin.write(b"job")
        program.stdin.flush()
        pids = [int(pid) for pid in wait_for(said).split()]
        program.stdin.close()
        assert program.wait(60) == 128 + (9 if how == "deaf" else 15)
    for pid in pids:
        wait_gone(pid)


def test_a_command_that_reads_nothing_is_no_trouble() -> None:
    argv = [*PROGRAM, "9000000", "true"]
    assert subprocess.run(argv, input=b"x" * 9_000_000, check=True, timeout=60).returncode == 0
