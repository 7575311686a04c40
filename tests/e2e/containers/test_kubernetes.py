"""A kubelet, an API server and containerd themselves; only crictl is played, by crictl.go over the CRI."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box
from tests.e2e.containers.conftest import Triage, ends_with_its_client, knows_its_own_listener, kubeconfig
from triage.hosts import ConnectionOptions, open_connection
from triage.hosts.local import LocalConnection

pytestmark = [pytest.mark.real, pytest.mark.timeout(3600)]
CRICTL = "/usr/local/bin/crictl"
CONFIGURATION = "runtime-endpoint: unix:///run/containerd/containerd.sock"
BRIEF = ("--requests", "2", "--repeats", "1", "--concurrency", "1", "--max-tokens", "8")


@pytest.fixture
def client(place: Path) -> Path:
    return place / "kubernetes" / "client"


def test_on_its_node(node: Box, triage: Triage) -> None:
    kimi = triage(node, "diagnose", "gpu01", "--unit", "kimi", code=1)
    assert kimi["incidents"][-1]["initiator"]["type"] == "IndexError"
    assert (kimi["deployment"]["manager"], kimi["deployment"]["layout"]["pp"]) == ("crictl", 8)
    assert kimi["restarts"]["loop"]
    greedy = triage(node, "diagnose", "gpu01", "--unit", "llm/greedy", code=1)
    assert greedy["incidents"][0]["verdict"]["category"] == "host-oom"
    assert greedy["restarts"]["count"] > 0
    assert greedy["restarts"]["result"] == "oom-kill"


@pytest.fixture
def played(node: Box, place: Path) -> Iterator[Callable[..., None]]:
    """Lets crictl be that of another minor version, with a configuration or without."""
    real = place / "kubernetes" / "bin" / "crictl"

    def play(age: int, configuration: str = "") -> None:
        script = f"cat >/etc/crictl.yaml; [ -s /etc/crictl.yaml ] || rm /etc/crictl.yaml; rm {CRICTL}; "
        script += f"echo '#!/bin/sh\nCRICTL_AGE={age} exec {real} \"$@\"' >{CRICTL}; chmod +x {CRICTL}"
        node.run(["sh", "-c", script], stdin=configuration, check=True)

    yield play
    node.run(["sh", "-c", f"rm -f /etc/crictl.yaml {CRICTL}; ln -s {real} {CRICTL}"], check=True)


@pytest.mark.parametrize("age", [20, 28])
def test_on_its_node_with_an_older_crictl(
    node: Box, triage: Triage, played: Callable[..., None], age: int
) -> None:
    played(age, CONFIGURATION)
    kimi = triage(node, "diagnose", "gpu01", "--unit", "kimi", code=1)
    assert kimi["incidents"][-1]["initiator"]["type"] == "IndexError"
    assert kimi["restarts"]["loop"]
    revived = triage(node, "diagnose", "gpu01", "--unit", "llm/revived-0", code=1)
    assert "the start before" in revived["incidents"][0]["initiator"]["position"]["source"]
    assert revived["deployment"]["version"] == "0.5.11"


def test_a_crictl_that_does_not_find_the_runtime(
    node: Box, triage: Triage, played: Callable[..., None]
) -> None:
    played(25)
    assert "name the runtime-endpoint" in triage(node, "diagnose", "gpu01", "--unit", "llm/kimi", code=2)
    played(20)
    assert "name the runtime-endpoint" in triage(node, "diagnose", "gpu01", "--unit", "llm/serves-0", code=3)


def test_on_its_node_without_rights_and_with(node: Box, triage: Triage) -> None:
    assert "permission denied" in triage(node, "diagnose", "ops@gpu01", "--unit", "llm/kimi", code=2)
    kimi = triage(node, "diagnose", "ops@gpu01", "--become", "--unit", "llm/kimi", code=1)
    assert kimi["incidents"][-1]["initiator"]["type"] == "IndexError"


def test_from_a_machine_with_kubectl(node: Box, triage: Triage, client: Path) -> None:
    for context in ("", "narrow"):
        kimi = triage(node, "diagnose", "local", "--unit", "kimi", code=1, path=client, context=context)
        assert kimi["incidents"][-1]["initiator"]["type"] == "IndexError"
        assert (kimi["deployment"]["manager"], kimi["deployment"]["node"]) == ("kubectl", "gpu01")
        assert kimi["restarts"]["loop"]
    absent = triage(node, "diagnose", "local", "--unit", "llm/absent", code=3, path=client)
    assert "ErrImageNeverPull" in absent


def test_the_start_that_failed_of_one_that_serves_again(node: Box, triage: Triage, client: Path) -> None:
    for where in ("gpu01", "local"):
        found = triage(node, "diagnose", where, "--unit", "llm/revived-0", code=1, path=client)
        (incident,) = found["incidents"]
        assert "the start before" in incident["initiator"]["position"]["source"]
        assert (found["deployment"]["state"], found["deployment"]["version"]) == ("running", "0.5.11")


def test_a_case_of_a_pod_says_the_same(node: Box, triage: Triage, client: Path, tmp_path: Path) -> None:
    case = tmp_path / "case"
    triage(node, "capture", "local", "--unit", "llm/revived-0", "-o", str(case), path=client)
    again = triage(node, "diagnose", "--case", str(case), code=1)
    assert again["incidents"][0]["initiator"]["type"] == "IndexError"


def test_what_triage_runs_in_a_pod_ends_with_exec_and_knows_who_listens(
    node: Box, client: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = "crictl ps --quiet --label io.kubernetes.pod.name=revived-0"
    on_node = node.run(["sh", "-c", ids], check=True).stdout.strip()
    with contextlib.closing(open_connection("gpu01", ConnectionOptions(ssh_config=node.ssh_config()))) as way:
        ends_with_its_client(node, way, "crictl", on_node)
        knows_its_own_listener(node, way, "llm/revived-0")
    monkeypatch.setenv("PATH", f"{client}:{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(node)))
    ends_with_its_client(node, LocalConnection(), "kubectl", "llm/revived-0/engine")


def test_it_is_started_again_by_whoever_owns_it(node: Box, triage: Triage, client: Path) -> None:
    on_node = triage(node, "verify", "gpu01", "--unit", "serves", *BRIEF)
    assert on_node["start"]["ready"]
    in_cluster = triage(node, "verify", "local", "--unit", "serves", *BRIEF, path=client)
    assert in_cluster["start"]["ready"]
    refused = triage(node, "verify", "local", "--unit", "llm/absent", *BRIEF, path=client, code=4)
    assert "no controller owns it" in refused
