"""The restart of a pod by whoever owns it. What answers is recorded, and changes as in Kubernetes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts import Output
from triage.verify.service.containers import place_of
from triage.verify.service.deployed import service_of
from triage.verify.service.pods import PodService

RECORDED = Path(__file__).parents[1] / "evidence" / "catalogue" / "recorded"
KUBELET = "    445       1 root  Sun Nov 29 17:01:00 2026 /usr/bin/kubelet --hostname-override=gpu01\n"
LABELS = [f"io.kubernetes.{word}" for word in ("pod.namespace", "pod.name", "container.name")]


class Kubernetes:
    """A Connection to a node, and to a machine with kubectl."""

    name = address = "gpu01"

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = json.loads((RECORDED / "node-containers").read_text())
        self.pods: dict[str, Any] = json.loads((RECORDED / "cluster-containers").read_text())
        self.labels = {"pod-template-hash": "58976ff948"}
        self.processes = KUBELET
        self.asked: list[tuple[str, ...]] = []
        self.refuses = b""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout: float = 30, limit: int = 0) -> Output:
        self.asked.append(tuple(argv))
        if self.refuses and argv[1] in ("stop", "delete"):
            return Output(1, b"", self.refuses)
        if argv[0] == "ps":
            return Output(0, self.processes.encode())
        told = getattr(self, f"{argv[0]}_{argv[1]}")(*argv[2:])
        return Output(0, told if isinstance(told, bytes) else json.dumps(told).encode())

    def stream(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> Iterator[bytes]:
        self.asked.append(tuple(argv))
        yield b""

    def close(self) -> None: ...

    def crictl_ps(self, *words: str) -> bytes:
        wanted = [word.split("=", 1)[1] for word in words if word.startswith("io.kubernetes.")]
        ids = [
            item["status"]["id"]
            for item in self.items
            if [item["status"]["labels"][label] for label in LABELS] == wanted
        ]
        assert "--latest" in words
        return "".join(f"{id}\n" for id in ids[:1]).encode()

    def crictl_inspect(self, *words: str) -> Any:
        return [item for item in self.items if item["status"]["id"] in words]

    def crictl_inspectp(self, id: str) -> Any:
        assert len(id) == 64
        return {"status": {"id": id, "labels": self.labels}}

    def crictl_stop(self, *words: str) -> bytes:
        at = next(i for i, item in enumerate(self.items) if item["status"]["id"] == words[-1])
        old = self.items[at]
        new = copy.deepcopy(old)
        old["status"] |= {"state": "CONTAINER_EXITED", "exitCode": 137}
        new["status"] |= {"id": "f" * 64, "startedAt": "2026-11-29T23:50:00Z"}
        self.items.insert(at, new)
        return b""

    def crictl_exec(self, *words: str) -> bytes:
        return " ".join(words).encode()

    def kubectl_get(self, *words: str) -> Any:
        return self.pods

    def kubectl_delete(self, *words: str) -> bytes:
        old = next(item for item in self.pods["items"] if item["metadata"]["name"] == words[-1])
        new = copy.deepcopy(old)
        new["metadata"] |= {"name": f"{words[-1][:-5]}new00", "creationTimestamp": "2026-11-29T23:50:00Z"}
        state = {"running": {"startedAt": "2026-11-29T23:50:01Z"}}
        new["status"]["containerStatuses"][0] |= {"state": state, "restartCount": 0}
        self.pods["items"] = [item for item in self.pods["items"] if item is not old] + [new]
        return b""

    kubectl_exec = crictl_exec


@pytest.fixture
def gpu01() -> Kubernetes:
    return Kubernetes()


def on_node(machine: Kubernetes, pod: str = "serves") -> Deployment:
    item = next(
        item
        for item in machine.items
        if item["status"]["labels"][LABELS[1]].startswith(pod)
        and item["status"]["metadata"]["name"] == "engine"
    )
    return Deployment(f"llm/{pod}", manager="crictl", container=item["status"]["id"])


def in_cluster(machine: Kubernetes, pod: str = "kimi") -> Deployment:
    names = (item["metadata"]["name"] for item in machine.pods["items"])
    name = next(name for name in names if name.startswith(pod))
    return Deployment(f"llm/{name}", manager="kubectl", container=f"llm/{name}/engine")


def test_on_its_node_the_kubelet_starts_it_again(gpu01: Kubernetes) -> None:
    deployment = on_node(gpu01)
    service, place = service_of(gpu01, deployment), place_of(gpu01, deployment)
    assert isinstance(service, PodService)
    before = service.state()
    assert (before.active, before.pid) == ("active", 1850)
    service.restart()
    assert ("crictl", "stop", "--timeout", "30", deployment.container) in gpu01.asked
    after = service.state()
    assert after.run == f"{'f' * 64} 2026-11-29T23:50:00+00:00" != before.run
    list(service.follow(after.run, 1.0))
    assert gpu01.asked[-1][4:] == ("crictl", "logs", "--follow", "f" * 64)
    assert place.run(("id",)).stdout.decode() == f"--interactive {'f' * 64} id"  # in the new one


def test_in_the_cluster_its_controller_makes_another_pod(gpu01: Kubernetes) -> None:
    deployment = in_cluster(gpu01)
    service, place = service_of(gpu01, deployment), place_of(gpu01, deployment)
    assert service is not None
    before = service.state()
    assert (before.active, before.restarting, before.dead) == ("failed", True, True)
    assert "CrashLoopBackOff, exit status 1" in before.detail
    service.restart()
    name = deployment.name.partition("/")[2]
    assert gpu01.asked[-1] == ("kubectl", "delete", "pod", "--wait=false", "--namespace", "llm", name)
    after = service.state()
    assert after.run == f"llm/{name[:-5]}new00/engine 2026-11-29T23:50:01+00:00"
    assert after.active == "active"
    list(service.follow(after.run, 1.0))
    assert gpu01.asked[-1][-3:] == (f"{name[:-5]}new00", "--container", "engine")
    assert f"{name[:-5]}new00" in place.run(("id",)).stdout.decode()


def test_between_two_pods_it_is_on_its_way(gpu01: Kubernetes) -> None:
    deployment = in_cluster(gpu01)
    service, place = service_of(gpu01, deployment), place_of(gpu01, deployment)
    assert service is not None
    gpu01.pods["items"] = []
    state = service.state()
    assert (state.run, state.pending, state.dead) == ("", True, False)
    assert place.run(("id",)).code == 1


def test_another_replica_is_not_the_next_pod_of_a_stateful_set(gpu01: Kubernetes) -> None:
    (kimi,) = (item for item in gpu01.pods["items"] if item["metadata"]["name"].startswith("kimi"))
    kimi["metadata"]["ownerReferences"] = [{"kind": "StatefulSet", "name": "kimi", "controller": True}]
    other = copy.deepcopy(kimi)
    other["metadata"]["name"] = "kimi-1"
    gpu01.pods["items"].append(other)
    service = service_of(gpu01, in_cluster(gpu01))
    assert service is not None
    gpu01.pods["items"].remove(kimi)
    assert (service.state().run, service.state().pending) == ("", True)


def nothing_was_ended(machine: Kubernetes) -> bool:
    return not [argv for argv in machine.asked if argv[1] in ("stop", "delete")]


def test_what_nobody_would_start_again_is_not_ended(gpu01: Kubernetes) -> None:
    service = service_of(gpu01, in_cluster(gpu01, "absent"))
    assert service is not None
    with pytest.raises(RefusedError, match="no controller owns it") as refused:
        service.restart()
    assert "--no-restart" in refused.value.next
    gpu01.pods["items"][0]["metadata"]["ownerReferences"] = [
        {"kind": "Node", "name": "gpu01", "controller": True}
    ]
    service = service_of(gpu01, in_cluster(gpu01, "absent"))
    assert service is not None
    with pytest.raises(RefusedError, match="static pod"):
        service.restart()
    gpu01.labels = {"job-name": "kimi"}
    service = service_of(gpu01, on_node(gpu01))
    assert service is not None
    with pytest.raises(RefusedError, match="no Deployment"):
        service.restart()
    gpu01.labels = {"pod-template-hash": "1"}
    gpu01.processes = KUBELET.replace("/usr/bin/kubelet", "/usr/bin/containerd")
    with pytest.raises(RefusedError, match="no kubelet"):
        service.restart()
    assert nothing_was_ended(gpu01)


def test_one_that_is_dead_waits_for_its_kubelet(gpu01: Kubernetes) -> None:
    service = service_of(gpu01, on_node(gpu01, "greedy"))
    assert service is not None
    service.restart()
    assert nothing_was_ended(gpu01)
    state = service.state()
    assert (state.dead, state.restarting) == (True, True)
    assert "exit status 137, out of memory" in state.detail


def test_rights_that_are_lacking_are_said(gpu01: Kubernetes) -> None:
    gpu01.refuses = b'Error from server (Forbidden): pods "x" is forbidden: User "narrow" cannot delete\n'
    service = service_of(gpu01, in_cluster(gpu01))
    assert service is not None
    with pytest.raises(RefusedError, match="cannot delete") as refused:
        service.restart()
    assert refused.value.to.count(f" on {gpu01.name}") == 1


def test_one_that_is_gone_since_is_said(gpu01: Kubernetes) -> None:
    deployment = on_node(gpu01)
    gpu01.items = gpu01.items[:1]
    with pytest.raises(UnreachableError, match="no container"):
        service_of(gpu01, deployment)
