from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triage.evidence.catalogue import (
    Belonging,
    PipedOutput,
    ProcessArguments,
    ProcessDirectory,
    ProcessEnvironment,
    Processes,
    ProcessGroup,
    ProcessOutput,
    ProgramPath,
    TailFile,
)
from triage.evidence.discovery.output_files import file_of_process
from triage.evidence.live import LiveEvidence
from triage.evidence.model import Unanswered
from triage.hosts import open_connection
from triage.hosts.connection import Output

Ask = Callable[..., Any]


@pytest.fixture
def evidence() -> LiveEvidence:
    return LiveEvidence(open_connection("local"))


def test_processes_as_procps_lists_them(ask: Ask) -> None:
    processes = {process.pid: process for process in ask(Processes(), "processes")}
    serving = processes[241]
    assert (serving.ppid, serving.user, serving.started) == (1, "root", "2026-11-29T17:15:38+00:00")
    assert serving.args == "/opt/sglang/bin/python -m sglang.launch_server --model /srv/m --tp=2"
    assert processes[29].user == "messagebus"


def test_our_own_processes_are_left_out_by_their_pids() -> None:
    at = "root Sun Nov 29 17:28:15 2026"
    listed = (
        f"1 0 {at} init\n70 1 {at} sshd: root@notty\n71 70 {at} sh -c ... triage: pid $$ ...\n"
        f"72 71 {at} timeout -k 2 31 ps\n73 72 {at} ps -ww -eo\n74 71 {at} sh -c ... triage: pid $$ ...\n"
        f"80 70 {at} python -m sglang.launch_server triage: pid 71\n81 80 {at} sh -c triage: pid $$\n"
    ).encode()

    def told(shell: int) -> list[int]:
        text = Processes().decode(Output(0, listed, shell=shell))
        return [process.pid for process in Processes().parse(text)]

    assert told(71) == [1, 70, 80, 81]
    assert told(0) == told(70) == told(99) == [1, 70, 71, 72, 73, 74, 80, 81]


@pytest.mark.parametrize("answer", [b"", b"PID TTY\n", b"busybox: unrecognized option\n", b"\xff" * 100])
def test_no_list(ask: Ask, answer: bytes) -> None:
    with pytest.raises(Unanswered):
        ask(Processes(), stdout=answer)


def test_a_real_process(evidence: LiveEvidence) -> None:
    words = [sys.executable, "-c", "import time; time.sleep(60)", "", "two words", "ünïcode\nnewline"]
    environment = {"PATH": os.environ["PATH"], "NCCL_DEBUG": "WARN", "HF_TOKEN": "hf_secret", "OTHER": "x"}
    process = subprocess.Popen(words, env=environment, cwd="/", stderr=subprocess.DEVNULL)
    try:
        assert evidence.ask(ProcessArguments(process.pid)).value == tuple(words)
        found = evidence.ask(ProcessEnvironment(process.pid)).require()
        assert found == {"PATH": os.environ["PATH"], "NCCL_DEBUG": "WARN"}
        assert evidence.ask(ProcessDirectory(process.pid)).value == "/"
        assert "/dev/null" in evidence.ask(ProcessOutput(process.pid)).missing
        assert process.pid in {each.pid for each in evidence.ask(Processes()).require()}
    finally:
        process.kill()
        process.wait()


def test_output_that_is_no_file(ask: Ask) -> None:
    with pytest.raises(Unanswered, match=r"^process 7 writes to socket:\[3465916\], not to a file$"):
        ask(ProcessOutput(7), stdout=b"socket:[3465916]\n")


@pytest.mark.parametrize("stop", ["| tee {0}", "| tee -a {0} >/dev/null"])
def test_words_that_another_program_writes_down(evidence: LiveEvidence, tmp_path: Path, stop: str) -> None:
    log = tmp_path / "out [1].log"
    line = f"{{ echo $$; exec sleep 60; }} 2>&1 {stop.format(shlex.quote(str(log)))}"
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.DEVNULL, start_new_session=True) as shell:
        try:
            end = time.monotonic() + 20
            while not (log.exists() and log.read_text().endswith("\n")) and time.monotonic() < end:
                time.sleep(0.02)
            (sleeper,) = (
                each.pid
                for each in evidence.ask(Processes()).require()
                if each.ppid == shell.pid and each.args == "sleep 60"
            )
            assert "pipe:" in evidence.ask(ProcessOutput(sleeper)).missing
            assert evidence.ask(PipedOutput(sleeper)).value == str(log)
            assert file_of_process(evidence, sleeper).value == str(log)
            words = log.read_text()
            log.unlink()
            again = LiveEvidence(open_connection("local"))
            gone = again.ask(PipedOutput(sleeper)).require()
            assert again.ask(TailFile(gone)).value == words
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


def test_a_line_break_in_a_file_name_leads_to_no_other_file(evidence: LiveEvidence, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("not to be read")
    forged = Path(f"{tmp_path}/x\n{other}")
    forged.parent.mkdir(parents=True)
    line = f"sh -c 'echo $$; exec sleep 60' 2>&1 | tee {shlex.quote(str(forged))}"
    with subprocess.Popen(["sh", "-c", line], stdout=subprocess.DEVNULL, start_new_session=True) as shell:
        try:
            end = time.monotonic() + 20
            while not (forged.exists() and forged.read_text()) and time.monotonic() < end:
                time.sleep(0.02)
            answer = evidence.ask(PipedOutput(int(forged.read_text())))
            assert (answer.value, "nobody is seen" in answer.missing) == (None, True)
        finally:
            os.killpg(shell.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        ("/a/x.log", "/a/x.log"),
        ("/var/log/supervisor/supervisord.log\n/l/kimi.log", "/l/kimi.log"),
        (
            "kimi\n/l/supervisord.log\n/l/kimi-stdout---a.log\n/l/kimi-stderr---b.log",
            "/l/kimi-stderr---b.log",
        ),
        ("kimi\n/l/x-stdout---a.log\n/l/x-stderr---b.log\n/l/model.log", "/l/model.log"),
        ("kimi\n/l/other.log\n/l/kimi.log\n/l/supervisord.log", "/l/kimi.log"),
        ("kimi\n/l/other.log\n/l/kimi.err.log\n/l/kimi.out.log", "/l/kimi.err.log"),
        ("/l/supervisord.log", "/l/supervisord.log"),
        ("/l/a.log (deleted)\n/l/b.log", "/l/b.log"),
        ("/l/b.log\n/l/b.log", "/l/b.log"),
        ("kimi\n/l/supervisord.log\n/proc/9/fd/4 /l/kimi.log (deleted)", "/proc/9/fd/4"),
        ("/proc/9/fd/4 /l/a.log (deleted)", "/proc/9/fd/4"),
        ("/proc/9/fd/4 /l/a.log (deleted)\n/l/b.log", "/l/b.log"),
        ("kimi\n/l/supervisord.log\n/l/kimi.log.1\n/l/model.log", "/l/kimi.log.1"),
    ],
)
def test_which_file_of_a_program_that_writes_down_what_others_say(ask: Ask, files: str, found: str) -> None:
    assert ask(PipedOutput(7), stdout=files.encode()) == found


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ("", "nobody is seen"),
        ("/l/a.log\n/l/b.log", "several files: /l/a.log, /l/b.log"),
        ("kimi\n/l/model.log\n/l/kimi-eagle.log", "several files: /l/kimi-eagle.log, /l/model.log"),
        ("kimi\n/l/x-stdout---a.log\n/l/x-stderr---b.log", "several files"),  # of another program
    ],
)
def test_a_pipe_that_leads_to_no_one_file(ask: Ask, files: str, why: str) -> None:
    with pytest.raises(Unanswered, match=why):
        ask(PipedOutput(7), stdout=files.encode())


def test_a_process_that_is_gone(evidence: LiveEvidence) -> None:
    for query in (ProcessArguments(2**22 + 1), ProcessEnvironment(2**22 + 1)):
        assert "No such file" in evidence.ask(query).missing


@pytest.mark.parametrize(
    ("cgroup", "unit", "container"),
    [
        (b"0::/system.slice/sglang-kimi.service\n", "sglang-kimi.service", ""),
        (b"0::/system.slice/system-vllm.slice/vllm@1.service\n", "vllm@1.service", ""),
        (b"9:name=systemd:/system.slice/ssh.service\n8:pids:/\n0::/\n", "ssh.service", ""),
        (b"0::/system.slice/a.service/worker\n", "a.service", ""),
        (b"0::/system.slice/docker.service\n", "docker.service", ""),
        (b"0::/user.slice/user-0.slice/session-3.scope\n", "", ""),
        (b"0::/system.slice/docker-0123456789ab.scope\n", "", "docker-0123456789ab.scope"),
        (b"0::/machine.slice/libpod-0123.scope/container\n", "", "libpod-0123.scope"),
        (b"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-9.scope\n", "", "kubepods.slice"),
        (b"0::/system.slice/nerdctl-0123.scope\n", "", "nerdctl-0123.scope"),
        (b"0::/default/%s\n" % (b"c" * 64), "", "c" * 64),  # of nerdctl or ctr, without systemd
        (b"0::/machine.slice/systemd-nspawn@b.service/payload\n", "", "systemd-nspawn@b.service"),
        (b"", "", ""),
        (b"garbage\n::\n", "", ""),
    ],
)
def test_where_a_process_belongs(ask: Ask, cgroup: bytes, unit: str, container: str) -> None:
    assert ask(ProcessGroup(1), stdout=cgroup) == Belonging(unit, container)


def test_a_process_of_a_users_own_systemd(ask: Ask) -> None:
    own = "0::/user.slice/user-1000.slice/user@1000.service/"
    for path in ("app.slice/x.service", "x.service", "app.slice/x.service/worker"):
        assert ask(ProcessGroup(1), stdout=f"{own}{path}\n".encode()) == Belonging(user_unit="x.service")
    for path in ("init.scope", "app.slice/tmux-spawn-1.scope"):
        assert ask(ProcessGroup(1), stdout=f"{own}{path}\n".encode()) == Belonging()


def test_where_a_program_is_found(evidence: LiveEvidence) -> None:
    assert evidence.ask(ProgramPath("sh", "/usr/bin:/bin")).require().endswith("bin/sh")
    assert evidence.ask(ProgramPath("$(touch pwned)", "/usr/bin")).value is None
    assert evidence.ask(ProgramPath("no-such-program", "/usr/bin")).value is None
