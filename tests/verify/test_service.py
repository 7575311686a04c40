from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage.common.errors import RefusedError, TriageError, UnreachableError, UsageError
from triage.evidence.model import Deployment
from triage.hosts.connection import Output
from triage.hosts.local import LocalConnection
from triage.verify.service.deployed import service_of
from triage.verify.service.model import MAX_LINE, lines_of
from triage.verify.service.process import ProcessService
from triage.verify.service.systemd import SystemdService

TALKER = """
import os, signal, sys, time
print("started", os.getpid(), os.getsid(0) == os.getpid(), os.getcwd(), flush=True)
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in sys.argv and os.fork() == 0:
    print("child", flush=True)
if "dies" not in sys.argv:
    time.sleep(600)
"""


@pytest.fixture
def make(tmp_path: Path) -> Iterator[object]:
    made: list[ProcessService] = []

    def make(*words: str) -> ProcessService:
        argv = (sys.executable, "-c", TALKER, *words)
        log, pid_file = str(tmp_path / "a log"), str(tmp_path / "a pid")
        made.append(ProcessService(LocalConnection(), argv, log, pid_file, str(tmp_path)))
        return made[-1]

    yield make
    for service in made:
        service.stop()


def until(service: ProcessService, wanted: str) -> list[str]:
    """The log of the current run up to a line that begins with `wanted`."""
    found: list[str] = []
    for lines in lines_of(service.follow(service.state().run, 60)):
        found += lines
        if any(line.startswith(wanted) for line in lines):
            return found
    raise AssertionError(f"no {wanted!r} in {found}")


def test_a_process_is_started_in_a_session_of_its_own_and_followed(make, tmp_path: Path):
    service = make()
    assert service.state().dead
    (tmp_path / "a log").write_text("of an earlier run\n")
    service.start()
    state = service.state()
    assert (state.active, state.dead) == ("active", False)
    assert until(service, "started") == [f"started {state.pid} True {tmp_path}"]
    with pytest.raises(RefusedError, match="it runs already"):
        service.start()
    service.stop()
    assert service.state().dead
    assert service.state().run == state.run


def test_a_restart_is_a_new_run_with_a_log_of_its_own(make):
    service = make()
    service.restart()
    first = service.state()
    until(service, "started")
    service.restart()
    second = service.state()
    assert first.run != second.run
    assert until(service, "started")[0].startswith(f"started {second.pid}")


def test_one_that_ends_is_seen_to_have_ended(make):
    service = make("dies")
    service.restart()
    until(service, "started")
    assert wait_dead(service).detail == "the process has ended"


def test_stopping_ends_the_children_too_and_the_stubborn(make, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("triage.verify.service.process.STOP_GRACE", 0.3)
    service = make("stubborn", "parent")
    service.restart()
    until(service, "child")
    group = service.state().pid
    service.stop()
    assert service.state().dead
    assert not [one for one in Path("/proc").glob("[0-9]*") if group_of(one) == group]


def test_a_process_that_got_the_same_pid_is_left_alone(make, tmp_path: Path):
    service = make()
    service.restart()
    state = service.state()
    pid, birth = state.run.split(":")
    (tmp_path / "a pid").write_text(f"{pid} {int(birth) + 1}\n")  # as if another had been started
    assert service.state().dead
    service.stop()
    (tmp_path / "a pid").write_text(f"{pid} {birth}\n")
    assert service.state() == state
    for nonsense in ("", "x y\n", f"{pid}\n", "1 1 1\n", "-1 5\n"):
        (tmp_path / "a pid").write_text(nonsense)
        assert service.state().dead
    (tmp_path / "a pid").write_text(f"{pid} {birth}\n")


def test_what_cannot_be_started_says_why(tmp_path: Path):
    nowhere = ProcessService(LocalConnection(), ["true"], "/nowhere/log", str(tmp_path / "pid"))
    with pytest.raises(UnreachableError, match=r"start true on local: .*nowhere"):
        nowhere.start()
    missing = ProcessService(LocalConnection(), ["/no/such"], str(tmp_path / "log"), str(tmp_path / "pid"))
    missing.start()
    assert wait_dead(missing).active == "failed"


def test_lines_are_put_together_and_bounded():
    chunks = [b"one\ntw", b"", b"o\n\xff\xfe\nlong", b"x" * MAX_LINE, b"y" * MAX_LINE, b"\nlast\nunfinished"]
    lines = list(itertools.chain.from_iterable(lines_of(iter(chunks))))
    assert lines[:3] == ["one", "two", "\\xff\\xfe"]
    assert lines[3] == "long" + "x" * (MAX_LINE - 4)
    assert lines[4:] == ["last"]


def test_following_ends_with_its_reader():
    closed = []

    def chunks() -> Iterator[bytes]:
        try:
            while True:
                yield b"a\n"
        finally:
            closed.append(True)

    lines = lines_of(chunks())
    assert next(lines) == ("a",)
    lines.close()  # type: ignore[attr-defined]
    assert closed == [True]


class Answering(LocalConnection):
    """A machine whose systemctl gives one answer, as systemd 252 gives it."""

    def __init__(self, stdout: bytes = b"", stderr: bytes = b"", code: int = 0) -> None:
        self.output = Output(code, stdout, stderr)

    def run(self, argv, **limits):  # type: ignore[no-untyped-def]
        return self.output


@pytest.mark.parametrize(
    ("stderr", "kind", "said"),
    [
        (b"Failed to restart x.service: Interactive authentication required.\n", RefusedError, "--become"),
        (b"Failed to restart x.service: Access denied\n", RefusedError, "--become"),
        (b"sudo: a password is required\n", RefusedError, "--become"),
        (b"Failed to restart x.service: Unit x.service is masked.\n", UnreachableError, "masked"),
        (b"System has not been booted with systemd as init system (PID 1).\n", UnreachableError, "booted"),
    ],
)
def test_what_systemctl_refuses_is_one_clear_error(stderr: bytes, kind: type[TriageError], said: str):
    with pytest.raises(kind) as caught:
        SystemdService(Answering(b"", stderr, 1), "x.service").restart()
    assert said in f"{caught.value} {caught.value.next}"


def test_the_states_of_a_unit():
    def state(text: str):
        return SystemdService(Answering(text.encode()), "x.service").state()

    running = state(
        "LoadState=loaded\nActiveState=active\nMainPID=71\nInvocationID=ab\nResult=success\nJob=\n"
    )
    assert (running.active, running.run, running.pid, running.dead) == ("active", "ab", 71, False)
    failed = state(
        "ActiveState=failed\nSubState=failed\nMainPID=0\nInvocationID=ab\nResult=signal\nExecMainCode=2\nExecMainStatus=9"
    )
    assert (failed.pid, failed.dead, failed.restarting) == (None, True, False)
    assert failed.detail == "failed, result signal, status 9/KILL"
    looping = state(
        "ActiveState=activating\nSubState=auto-restart\nResult=exit-code\nExecMainCode=1\nExecMainStatus=1\nJob=5"
    )
    assert (looping.dead, looping.restarting, looping.pending) == (True, True, True)
    assert looping.detail == "activating, result exit-code, status 1, to be started again"
    skipped = state("ActiveState=inactive\nResult=success\nConditionResult=no\nConditionTimestamp=Mon\nJob=")
    assert (skipped.dead, skipped.detail) == (True, "inactive, a condition of its unit is not met")
    with pytest.raises(UnreachableError, match="masked"):
        state("LoadState=masked\nActiveState=inactive")


@pytest.mark.parametrize("unit", ["", "sglang*", "-H", "a b", "x\n", "[x]", "x?"])
def test_names_that_are_no_units_or_would_mean_many(unit: str):
    with pytest.raises(UsageError):
        SystemdService(LocalConnection(), unit)


def test_a_unit_is_restarted_by_systemd_and_an_unknown_process_by_nobody():
    service = service_of(LocalConnection(), Deployment("x", unit="sglang@kimi-k2.6.service"))
    assert service is not None
    assert service.name == "sglang@kimi-k2.6.service"
    assert service_of(LocalConnection(), Deployment("pid 4711", main_pid=4711)) is None


def group_of(process: Path) -> int:
    """The process group of one that lives, else 0."""
    try:
        state, _, group = (process / "stat").read_text().rpartition(")")[2].split()[:3]
    except OSError:
        return 0
    return 0 if state in "ZX" else int(group)


def wait_dead(service: ProcessService):
    for _ in range(600):
        state = service.state()
        if state.dead:
            return state
        time.sleep(0.05)
    raise AssertionError("it goes on living")
