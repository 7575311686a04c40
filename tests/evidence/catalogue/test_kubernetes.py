"""The cluster's answers are recorded: kubectl 1.32, Kubernetes 1.20.2, containerd 1.6.20.

Those of the node are the same containerd's, asked over the CRI as tests/e2e/containers does it, and written
as crictl writes them. `crictl-*` is what crictl 1.32 says on standard error, by its source
(kubernetes-sigs/cri-tools, cmd/crictl/main.go and container.go, pkg/common/config.go) and by issues that
quote it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.catalogue.conftest import recorded
from triage.evidence.catalogue import (
    ClusterContainers,
    Container,
    Containers,
    NodeContainers,
    PodLog,
    ReadPodFile,
)
from triage.evidence.model import Unanswered
from triage.hosts import Output

Ask = Callable[..., Any]
ALL = ("-m", "sglang.launch_server", "--model-path", "/models/kimi", "--pp-size", "8")
MIB = 1 << 20


def by_name(found: tuple[Container, ...]) -> dict[str, list[Container]]:
    names: dict[str, list[Container]] = {}
    for each in found:
        names.setdefault(each.name.split("/")[1].partition("-")[0], []).append(each)
    return names


def test_containers_of_a_node(ask: Ask) -> None:
    ids = ask(Containers("crictl"), "containers-crictl")
    assert len(ids) == 6
    pods = by_name(ask(NodeContainers(ids), "node-containers"))
    (kimi,) = pods["kimi"]
    assert kimi.argv[1:7] == ALL
    assert (kimi.state, kimi.exit_code, kimi.restarts, kimi.pid) == ("exited", 1, 4, None)
    assert (kimi.environment["NCCL_DEBUG"], kimi.image) == ("WARN", "docker.io/lmsysorg/sglang:v0.5.11")
    (greedy,) = pods["greedy"]
    assert (greedy.out_of_memory, greedy.exit_code, greedy.shm_size) == (True, 137, 0)  # the node's memory
    again, died = pods["revived"]  # newest first
    assert (again.name, again.state, again.restarts, again.shm_size) == (died.name, "running", 1, 64 * MIB)
    assert (died.state, died.exit_code, died.restarts) == ("exited", 1, 0)
    assert died.started == "2026-11-29T23:24:07+00:00"
    assert (died.ended, died.lasted) == ("2026-11-29T23:24:08+00:00", 1)
    assert (again.pid, again.ended, again.lasted) == (2652, "", None)
    assert {each.name.split("/")[2] for each in pods["serves"]} == {"engine", "sidecar"}


def test_one_container_is_no_list_and_older_releases_print_one_after_the_other(ask: Ask) -> None:
    (one,) = ask(NodeContainers(("1",)), "node-containers-one")
    assert one.name == "llm/revived-0/engine"
    twice = recorded("node-containers-one") * 2
    assert ask(NodeContainers(("1", "2")), stdout=twice) == (one, one)


def test_one_that_has_gone_is_left_out(ask: Ask) -> None:
    query = NodeContainers(("a" * 64, "b" * 64))
    gone = Output(
        1, recorded("node-containers-one"), recorded("crictl-gone")
    )  # before 1.31 those before it are told
    assert query.falls_short(gone)
    assert not query.falls_short(Output(0, recorded("node-containers"), recorded("crictl-gone")))
    assert not query.falls_short(Output(1, b"", b"connect: permission denied"))
    assert query.lesser()[:2] == ("sh", "-c")
    assert query.lesser()[-2:] == query.ids
    assert NodeContainers(("a" * 64,)).lesser() == ()


def test_each_is_asked_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crictl = tmp_path / "crictl"
    crictl.write_text(
        '#!/bin/sh\n[ "$*" != "inspect --output json gone" ] && printf \'{"id": "%s"}\\n\' "$4"\n'
    )
    crictl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = subprocess.run(NodeContainers(("1", "gone", "2")).lesser(), capture_output=True, check=True)
    assert done.stdout == b'{"id": "1"}\n{"id": "2"}\n'


def test_one_that_was_not_started_and_one_whose_process_is_long_gone(ask: Ask) -> None:
    told = json.loads(recorded("node-containers-one"))
    never = "0001-01-01T00:00:00Z"
    told["status"] |= {"state": "CONTAINER_CREATED", "startedAt": never, "finishedAt": never, "user": None}
    (created,) = ask(NodeContainers(("1",)), stdout=json.dumps(told).encode())
    assert (created.state, created.started, created.ended) == ("created", "", "")
    told["status"] |= {"state": "CONTAINER_EXITED", "exitCode": -1, "startedAt": "2026-11-30T00:24:07+01:00"}
    (ended,) = ask(NodeContainers(("1",)), stdout=json.dumps(told).encode())  # CRI-O, without its exit status
    assert (ended.pid, ended.exit_code, ended.started) == (None, -1, "2026-11-29T23:24:07+00:00")


def test_the_place_that_may_not_be_read_is_told(ask: Ask) -> None:
    """Where there is no configuration, the last place that is tried is not the one that counts."""
    said = recorded("crictl-no-rights")
    with pytest.raises(Unanswered, match=r'\Avalidate .*"unix:///run/containerd/.* permission denied"\Z'):
        ask(Containers("crictl"), code=1, stderr=said)
    lines = said.splitlines(keepends=True)
    with pytest.raises(Unanswered, match=r"cri-dockerd.sock: connect: no such file or directory\"\Z"):
        ask(Containers("crictl"), code=1, stderr=lines[0] + lines[-1])


def test_containers_of_a_cluster(ask: Ask) -> None:
    pods = by_name(ask(ClusterContainers(), "cluster-containers"))
    (kimi,) = pods["kimi"]
    assert kimi.id == kimi.name == "llm/kimi-58976ff948-wfs4x/engine"
    assert kimi.argv[1:7] == ALL
    assert (kimi.state, kimi.exit_code, kimi.restarts) == ("CrashLoopBackOff", 1, 4)
    assert (kimi.node, kimi.owner) == ("gpu01", "ReplicaSet/kimi-58976ff948")
    (greedy,) = pods["greedy"]
    assert (greedy.out_of_memory, greedy.exit_code, greedy.shm_size) == (True, 137, 2048 * MIB)
    (revived,) = pods["revived"]
    assert (revived.state, revived.restarts, revived.pid) == ("running", 1, None)
    assert (revived.started, revived.exit_code) == ("2026-11-29T23:24:09+00:00", 1)  # the start before
    assert (revived.ended, revived.lasted) == ("2026-11-29T23:24:08+00:00", 1)
    (absent,) = pods["absent"]
    assert (absent.state, absent.owner, absent.started) == ("ErrImageNeverPull", "", "")
    assert "not present with pull policy of Never" in absent.error
    assert absent.argv == ("vllm", "serve", "--model", "/models/kimi", "--tensor-parallel-size", "4")


def test_no_environment_with_a_secret_is_in_the_canonical_text() -> None:
    for query, name in (
        (NodeContainers(("1",)), "node-containers"),
        (ClusterContainers(), "cluster-containers"),
    ):
        items = [json.loads(line) for line in query.decode(Output(0, recorded(name))).splitlines()]
        assert items
        assert not [item for item in items if "API_KEY" in item["environment"]]
    in_cluster = ClusterContainers().decode(Output(0, recorded("cluster-containers")))
    assert "$(API_KEY)" in in_cluster  # what only the environment holds stays there
    assert "sk-1234567890" not in in_cluster


def test_a_user_who_may_not_list_all_is_told_of_the_contexts_own_namespace() -> None:
    said = b'Error from server (Forbidden): pods is forbidden: User "narrow" cannot list resource "pods"\n'
    query = ClusterContainers()
    assert query.lesser() == tuple(each for each in query.argv() if each != "--all-namespaces")
    assert query.falls_short(Output(1, b'{"items": []}', said))
    assert not query.falls_short(Output(1, b"", b"The connection to the server was refused"))
    assert ClusterContainers("llm").lesser() == ()


HOSTILE = [
    b"", b"null", b"[]", b"[1]", b'"x"', b"[" * 99_999, b"{}", b'{"items": 3}', b'{"items": [3, null, {}]}',
    b'{"items": [{"spec": {"containers": [{"name": []}]}, "metadata": {"name": {}, "namespace": []}}]}',
    b'{"items": [{"status": {"containerStatuses": [{"name": []}]}}]}',
    b'{"status": {"labels": {"io.kubernetes.pod.name": "../x"}}, "info": {"runtimeSpec": {"mounts": 3}}}',
    b'{"status": [], "info": "x"}\n{"status": 3}\n',
]  # fmt: skip


@pytest.mark.parametrize("stdout", HOSTILE)
@pytest.mark.parametrize("query", [NodeContainers(("1",)), ClusterContainers()])
def test_answers_that_make_no_sense_name_nothing(ask: Ask, query: Any, stdout: bytes) -> None:
    with contextlib.suppress(Unanswered):
        assert ask(query, stdout=stdout) == ()


@pytest.mark.parametrize("name", ["--all", "a/b", "../x", "a b", "x" * 300, "A", "a\n", ""])
def test_a_name_that_is_none_is_left_out(ask: Ask, name: str) -> None:
    told = json.loads(recorded("cluster-containers"))
    told["items"] = [item for item in told["items"] if item["metadata"]["name"].startswith("kimi")]
    told["items"][0]["metadata"]["name"] = name
    assert ask(ClusterContainers(), stdout=json.dumps(told).encode()) == ()


def test_an_answer_that_was_cut_says_what_to_do(ask: Ask) -> None:
    with pytest.raises(Unanswered, match="NAMESPACE/POD"):
        ask(ClusterContainers(), stdout=recorded("cluster-containers")[:9999], code=None, cut="bytes")


def test_the_log_of_the_start_before() -> None:
    argv = PodLog("kubectl", "llm/kimi-0/engine", previous=True).argv()
    assert argv[:6] == ("kubectl", "logs", "--namespace", "llm", "kimi-0", "--container")
    assert argv[-1] == "--previous"
    assert "--previous" not in PodLog("kubectl", "llm/kimi-0/engine").argv()


IN_A_POD = b"cat: /m/x.py: No such file or directory\ncommand terminated with exit code 1\n"
ON_A_NODE = (
    b"cat: /m/x.py: No such file or directory\n"
    b'time="2026-11-29T23:24:33Z" level=fatal msg="execing command in container 41a9: command terminated '
    b'with exit code 1"\n'
)


def test_a_file_in_a_pod(ask: Ask) -> None:
    query = ReadPodFile("kubectl", "llm/kimi-0/engine", "/m/config.json")
    where = ("--namespace", "llm", "kimi-0", "--container", "engine", "--")
    assert query.argv() == ("kubectl", "exec", *where, "cat", "--", "/m/config.json")
    assert ask(query, stdout=b'{"a": 1}\n') == '{"a": 1}\n'
    with pytest.raises(Unanswered, match="not JSON"):
        ask(query, stdout=b"root:x:0:0\n")
    on_node = ReadPodFile("crictl", "41a9", "/m/x.py")
    assert on_node.argv()[:5] == ("crictl", "exec", "41a9", "sh", "-c")
    assert ask(on_node, stdout=b"x=\xff\n") == "x=\udcff\n"
    for said in (IN_A_POD, ON_A_NODE, recorded("crictl-no-rights").splitlines(keepends=True)[0] + ON_A_NODE):
        with pytest.raises(Unanswered, match=r"\Acat: /m/x.py: No such file or directory\Z"):
            ask(on_node, code=1, stderr=said)
    with pytest.raises(Unanswered, match="get the status of containers"):
        ask(on_node, code=1, stderr=recorded("crictl-gone"))
    with pytest.raises(Unanswered, match="container not found"):
        ask(query, code=1, stderr=b'error: unable to upgrade connection: container not found ("engine")\n')
