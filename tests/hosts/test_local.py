from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.hosts.test_ssh import HOSTILE, MEGABYTE, gone, running
from triage.common.errors import UsageError
from triage.hosts import ConnectionOptions, open_connection


def test_local_is_this_machine() -> None:
    connection = open_connection("local")
    assert (connection.name, connection.address) == ("local", "local")
    assert connection.run(["sh", "-c", "echo $PPID"]).stdout == f"{os.getpid()}\n".encode()


def test_streams_status_and_environment() -> None:
    output = open_connection("local").run(["sh", "-c", "echo $LC_ALL $TZ; echo err >&2; exit 3"])
    assert (output.code, output.stdout, output.stderr) == (3, b"C UTC\n", b"err\n")


def test_ten_megabytes_each_way() -> None:
    data = os.urandom(10 * MEGABYTE)
    output = open_connection("local").run(["sh", "-c", "tee /dev/stderr"], stdin=data)
    assert output.stdout == data
    assert output.stderr == data


def test_what_is_not_there_and_what_is_no_program(tmp_path: Path) -> None:
    assert open_connection("local").run(["no-such-command-anywhere"]).code == 127
    (tmp_path / "plain").write_text("text")
    assert open_connection("local").run([str(tmp_path / "plain")]).code == 126


def test_death_by_signal() -> None:
    assert open_connection("local").run(["sh", "-c", "kill -9 $$"]).code == -signal.SIGKILL


def test_the_time_limit_ends_the_whole_process_group() -> None:
    output = open_connection("local").run(
        ["sh", "-c", "echo early; sleep 97.7701 & sleep 97.7701"], timeout=0.5
    )
    assert (output.code, output.stdout, output.cut) == (None, b"early\n", "time")
    assert gone("97.7701")


@pytest.mark.slow
def test_the_time_limit_ends_what_ignores_sigterm() -> None:
    script = "trap '' TERM; while :; do sleep 0.2; done # 97.7702"
    assert open_connection("local").run(["sh", "-c", script], timeout=0.5).cut == "time"
    assert gone("97.7702")


def test_the_byte_limit_keeps_exactly_so_much() -> None:
    output = open_connection("local").run(["sh", "-c", "yes; : 97.7703"], limit=MEGABYTE)
    assert (output.code, output.cut, len(output.stdout)) == (None, "bytes", MEGABYTE)
    assert gone("97.7703")


@pytest.mark.parametrize("outputs", ["", ">/dev/null 2>&1"])
def test_what_a_command_has_left_behind_ends_with_it(outputs: str) -> None:
    script = f"(trap '' TERM; sleep 20.7704) {outputs} & echo done"
    output = open_connection("local").run(["sh", "-c", script], timeout=15)
    assert (output.code, output.stdout, output.cut) == (0, b"done\n", "")
    assert gone("20.7704", within=2)


@pytest.mark.slow
def test_a_child_in_a_session_of_its_own_does_not_hold_us() -> None:
    connection = open_connection("local")
    script = "setsid sleep 20.7707 & while ! pgrep -s $! >/dev/null; do sleep 0.01; done; echo done"
    output = connection.run(["sh", "-c", script], timeout=15)
    assert (output.code, output.stdout, output.cut) == (0, b"done\n", "")
    assert b"".join(connection.stream(["sh", "-c", script], timeout=15)) == b"done\n"
    left = running("20.7707")
    assert len(left) == 2
    for pid in left:
        os.kill(pid, signal.SIGKILL)


def test_a_process_that_closes_its_outputs_is_waited_for() -> None:
    assert open_connection("local").run(["sh", "-c", "exec >&- 2>&-; sleep 0.5; exit 5"]).code == 5


@pytest.mark.parametrize("word", HOSTILE)
def test_arguments_arrive_as_they_are(word: str) -> None:
    assert open_connection("local").run(["printf", "%s\\0", word]).stdout.decode() == f"{word}\0"


def test_a_nul_in_an_argument_is_refused() -> None:
    with pytest.raises(UsageError):
        open_connection("local").run(["echo", "a\0b"])


def test_stream_yields_as_it_comes_and_ends_the_command_when_closed() -> None:
    stream = open_connection("local").stream(["sh", "-c", "echo up; sleep 97.7705"], timeout=500)
    assert next(piece for piece in stream if piece) == b"up\n"
    assert next(stream) == b""
    stream.close()  # type: ignore[attr-defined]
    assert gone("97.7705")


def test_a_stream_ends_with_the_command_and_at_its_time_limit() -> None:
    connection = open_connection("local")
    assert b"".join(connection.stream(["echo", "all"], timeout=20)) == b"all\n"
    assert b"".join(connection.stream(["sh", "-c", "echo up; sleep 97.7706"], timeout=1)) == b"up\n"
    assert gone("97.7706")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be root already")
def test_commands_do_not_find_what_makes_tools_speak_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSIXLY_CORRECT", "1")
    told = open_connection("local").run(["sh", "-c", "echo ${POSIXLY_CORRECT-unset}"])
    assert told.stdout == b"unset\n"


def test_become_changes_nothing_for_root() -> None:
    connection = open_connection("local", ConnectionOptions(become=True))
    assert connection.run(["id", "-u"]).stdout == b"0\n"
