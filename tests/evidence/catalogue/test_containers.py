"""The answers are recorded: podman 4.3.1, docker 20.10.24, both with `--network=host`."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence.catalogue.conftest import recorded
from triage.evidence.catalogue import ContainerDetails, ContainerLog, Containers, ReadContainerFile
from triage.evidence.model import Unanswered
from triage.hosts import Output

Ask = Callable[..., Any]
ID = "74d579caf1f177356cb985ced8cd073a7f8e7f81173ef19c994841628082a26e"


def test_ids(ask: Ask) -> None:
    ids = ask(Containers("podman"), "containers-podman")
    assert (len(ids), ids[0]) == (2, ID)
    assert ask(Containers("docker"), stdout=b"\n--format=x\n$(touch x)\n") == ()


def test_details_as_podman_tells_them(ask: Ask) -> None:
    ended, running = ask(ContainerDetails("podman", (ID,)), "container-details-podman")
    assert (ended.name, ended.state, ended.exit_code, ended.pid) == ("kimi", "exited", 3, None)
    assert ended.argv == (
        *("/opt/venv/bin/python", "-m", "sglang.launch_server"),
        *("--model-path", "/srv/a model", "--tp", "2"),
    )
    assert ended.environment == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "NCCL_DEBUG": "WARN",
    }
    assert (ended.started, ended.shm_size, ended.service) == ("2026-11-29T20:31:04+00:00", 16777216, "kimi")
    assert (running.name, running.state, running.pid) == ("live", "running", 1021)


def test_no_secret_is_in_the_canonical_text() -> None:
    text = ContainerDetails("podman", (ID,)).decode(Output(0, recorded("container-details-podman")))
    assert "hf_" not in text
    assert "CreateCommand" not in text


def test_details_as_docker_tells_them(ask: Ask) -> None:
    ids = ask(Containers("docker"), "containers-docker")
    found = {each.name: each for each in ask(ContainerDetails("docker", ids), "container-details-docker")}
    assert set(found) == {"dies", "loops", "greedy", "chat_engine_1"}
    dies, loops, greedy, chat = (found[name] for name in ("dies", "loops", "greedy", "chat_engine_1"))
    assert (dies.state, dies.exit_code, dies.shm_size) == ("exited", 1, 16777216)
    assert dies.argv[1:5] == ("-m", "sglang.launch_server", "--model-path", "/models/kimi")
    assert dies.environment["NCCL_DEBUG"] == "WARN"
    assert (loops.state, loops.exit_code, loops.restarts > 3) == ("restarting", 1, True)
    assert (loops.ended, loops.lasted) == ("2026-11-30T00:04:07+00:00", 0)
    assert (chat.exit_code, chat.ended, chat.lasted) == (None, "", None)
    assert (greedy.state, greedy.out_of_memory, greedy.exit_code) == ("exited", True, 137)
    assert (chat.state, chat.service, bool(chat.pid)) == ("running", "engine", True)
    assert "hf_" not in ContainerDetails("docker", ids).decode(
        Output(0, recorded("container-details-docker"))
    )


def test_one_that_has_gone_does_not_hide_the_others(ask: Ask) -> None:
    gone = b"Error: inspecting object: no such container 1\n"
    output = {"code": 125, "stdout": recorded("container-details-podman"), "stderr": gone}
    assert len(ask(ContainerDetails("podman", ("1",)), **output)) == 2
    with pytest.raises(Unanswered, match="no such container 1"):
        ask(ContainerDetails("podman", ("1",)), code=125, stdout=b"[]\n", stderr=gone)


@pytest.mark.parametrize("stdout", [b"", b"null", b"[1]", b"[" * 100_000, b'[{"State": 3}]', b'[{"Id": 1}]'])
def test_details_that_are_none(ask: Ask, stdout: bytes) -> None:
    with pytest.raises(Unanswered):
        ask(ContainerDetails("docker", (ID,)), stdout=stdout)


def test_both_streams_of_a_log_in_the_order_of_their_times(ask: Ask) -> None:
    out = b"2026-11-29T20:31:04.730533000Z [2026-11-29 20:30:01 TP0] Load weight begin.\n"
    later = b"2026-11-29T20:31:05.000000000Z last\xff\n"
    err = (
        b"2026-11-29T20:31:04.734198000Z Traceback (most recent call last):\n"
        b"2026-11-29T20:31:04.734399000Z IndexError: list index out of range\n"
    )
    text = ask(ContainerLog("podman", ID), stdout=out + later, stderr=err)
    assert text.encode("utf-8", "surrogateescape") == out + err + later
    with pytest.raises(Unanswered, match="no such container"):
        ask(ContainerLog("docker", ID), code=1, stderr=b"Error: no such container\n")


# What crictl 1.32 says beside the log, where it has no configuration.
WARNINGS = rb"""time="2026-11-29T20:31:03Z" level=warning msg="Config \"/etc/crictl.yaml\" does not exist"
time="2026-11-29T20:31:03Z" level=warning msg="runtime connect using default endpoints: [unix:///run/c.sock]"
time="2026-11-29T20:31:05Z" level=error msg="validate service connection: no such file or directory"
W1129 20:31:05.404931    1520 logs.go:388] "Incomplete line in log file" path="/var/log/pods/0.log" line="Tr"
"""


@pytest.mark.parametrize("tool", ["docker", "podman", "crictl"])
def test_the_tools_own_words_are_no_lines_of_the_log(ask: Ask, tool: Any) -> None:
    err = b"2026-11-29T20:31:04.734399000+01:00 IndexError: list index out of range\n"
    out = b"2026-11-29T20:31:04.730533000+01:00 Load weight begin.\n"
    assert ask(ContainerLog(tool, ID), stderr=WARNINGS + err).encode() == err
    assert ask(ContainerLog(tool, ID), stdout=out, stderr=WARNINGS + err).encode() == out + err
    assert ask(ContainerLog(tool, ID), stdout=out, stderr=WARNINGS).encode() == out
    fatal = b'time="2026-11-29T20:31:05Z" level=fatal msg="rpc error: code = NotFound"\n'
    with pytest.raises(Unanswered, match=r"\Arpc error: code = NotFound\Z"):
        ask(ContainerLog(tool, ID), code=1, stderr=WARNINGS + fatal)
    assert ask(ContainerLog(tool, ID), code=1, stderr=err + fatal).encode() == err  # which it was cut after


def archived(name: str, data: bytes = b"x=\xff\n", **more: Any) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo(name)
        info.size = len(data)
        for key, value in more.items():
            setattr(info, key, value)
        archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def test_a_file_out_of_a_container(ask: Ask) -> None:
    query = ReadContainerFile("docker", ID, "/opt/a.py")
    assert query.argv() == ("docker", "cp", "--follow-link", f"{ID}:/opt/a.py", "-")
    assert ReadContainerFile("podman", ID, "/opt/a.py").argv() == ("podman", "cp", f"{ID}:/opt/a.py", "-")
    assert ask(query, stdout=archived("a.py")) == "x=\udcff\n"
    assert ask(ReadContainerFile("docker", ID, "/m/config.json"), stdout=archived("0123", b"{}")) == "{}"
    linked = archived("a.py", b"", type=tarfile.SYMTYPE, linkname="/etc/shadow")
    for stdout in (linked, b"", b"garbage" * 1000, archived("a.py")[:513]):
        with pytest.raises(Unanswered):
            ask(query, stdout=stdout)


def test_a_link_to_what_is_no_source_is_refused(ask: Ask) -> None:
    with pytest.raises(Unanswered, match="a link to shadow"):
        ask(ReadContainerFile("docker", ID, "/opt/a.py"), stdout=archived("shadow"))
