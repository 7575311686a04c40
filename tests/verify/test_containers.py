"""A service in a container. What plays docker is tests/verify/docker.py; the service is a real process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.conftest import SERVER, free_port
from tests.verify.docker import ID
from tests.verify.test_engine_tool import wait_gone
from tests.verify.test_links import Answering
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.history import History
from triage.verify.load.client import client_of
from triage.verify.service.containers import ContainerService, place_of
from triage.verify.service.deployed import service_of
from triage.workflows.verify import Options, verify

BRIEF = Options(
    requests=2, repeats=1, most_repeats=1, concurrency=1, max_tokens=8, timeout=60, request_timeout=10
)


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its state directory, with a service that is not started yet."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    shutil.copy(Path(__file__).with_name("docker.py"), program)
    program.write_text(program.read_text().replace("/usr/bin/env python3", sys.executable))
    program.chmod(0o755)
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_STATE", str(state))
    yield state
    pid = (state / "pid").read_text() if (state / "pid").exists() else ""
    if pid and Path(f"/proc/{pid}").exists():
        os.kill(int(pid), signal.SIGKILL)


def deployment(docker: Path, start: str = "ready") -> Deployment:
    port = free_port()
    (docker / "command.json").write_text(json.dumps([sys.executable, str(SERVER), str(port), "ok", start]))
    where = {"manager": "docker", "container": ID, "state": "exited"}
    return Deployment("kimi", engine="sglang", python=sys.executable, port=port, **where)


def test_it_is_restarted_followed_and_proven(docker: Path, tmp_path: Path):
    found = deployment(docker)
    connection = LocalConnection()
    service = service_of(connection, found)
    assert isinstance(service, ContainerService)
    assert service.state().dead
    result = verify(connection, found, BRIEF, history=History(tmp_path / "history"))
    assert (result.start.ready, result.start.restarted) == (True, True), result.reason
    assert "Load weight end" in [phase.name for phase in result.start.phases]
    assert result.metrics
    assert service.state().run == result.start.invocation
    again = verify(connection, found, BRIEF, history=History(tmp_path / "history"))
    assert again.start.ready
    assert again.start.invocation != result.start.invocation


def test_one_that_dies_while_it_starts_is_said(docker: Path, tmp_path: Path):
    begin = time.monotonic()
    result = verify(LocalConnection(), deployment(docker, "dies"), BRIEF, history=History(tmp_path))
    assert (result.verdict, result.start.died) == ("failed", True)
    assert "exited, exit status 1" in result.reason
    assert time.monotonic() - begin < 50  # and not at the end of the time


def test_one_that_hangs_is_not_waited_for(docker: Path, tmp_path: Path):
    options = replace(BRIEF, timeout=300, patience=3.0)
    result = verify(LocalConnection(), deployment(docker, "hangs"), options, history=History(tmp_path))
    assert (result.verdict, result.start.died) == ("failed", False)
    assert result.reason.startswith("it hangs: no line for ")
    assert ", its processes use no CPU" in result.reason
    assert result.start.phases[-1].name == "Memory pool end"


def test_its_endpoint_is_asked_from_inside(docker: Path):
    found = deployment(docker)
    connection = LocalConnection()
    assert client_of(connection, found).models().error
    ContainerService(connection, "docker", ID, "kimi").restart()
    deadline = time.monotonic() + 30
    while client_of(connection, found).models().models != ("tiny",):
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("size", [1, 1_000_000])
def test_what_runs_inside_is_given_its_input_and_ends_with_its_client(
    docker: Path, tmp_path: Path, size: int
):
    found, said = deployment(docker), tmp_path / "pid"
    place = place_of(LocalConnection(), found, sys.executable)
    counts = "import sys; print(len(sys.stdin.buffer.read())); sys.exit(3)"
    counted = place.run((sys.executable, "-c", counts), stdin=b"x" * size)
    assert (counted.code, counted.stdout) == (3, f"{size}\n".encode())
    waits = "open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    waits = f"import os, sys, time; sys.stdin.read(); {waits}"
    left = place.run((sys.executable, "-c", waits, str(said)), stdin=b"x" * size, timeout=3)
    assert left.cut == "time"
    wait_gone(int(said.read_text()))


def test_what_docker_refuses_is_said(docker: Path):
    connection = LocalConnection()
    with pytest.raises(UnreachableError, match="No such container"):
        ContainerService(connection, "docker", "8" * 64, "gone").state()
    (docker / "refuses").write_text("yes")
    with pytest.raises(RefusedError, match="permission denied"):
        ContainerService(connection, "docker", ID, "kimi").restart()


@pytest.mark.parametrize(
    "answer",
    [b"", b"\xff", b"[]", b"null", b'"x"', b"[" * 9999, b"{}",
     b'{"Status": "running", "StartedAt": "x", "Pid": 1e999, "ExitCode": 0}',
     b'{"Status": "running", "StartedAt": "x", "Pid": "one", "ExitCode": 0}'],
)  # fmt: skip
def test_an_answer_of_docker_that_makes_no_sense_is_said(answer: bytes):
    with pytest.raises(UnreachableError, match="its answer makes no sense"):
        ContainerService(Answering(answer), "docker", ID, "kimi").state()
