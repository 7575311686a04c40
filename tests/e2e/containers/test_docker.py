"""docker and docker-compose themselves, of two generations, over ssh."""

from __future__ import annotations

import contextlib

import pytest

from tests.e2e.box import Box
from tests.e2e.containers.conftest import Triage, ends_with_its_client, knows_its_own_listener
from triage.evidence.catalogue import ReadContainerFile
from triage.evidence.live import LiveEvidence
from triage.hosts import ConnectionOptions, open_connection
from triage.patching.evidence_tree import EvidenceTree

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
BRIEF = ("--requests", "2", "--repeats", "1", "--concurrency", "1", "--max-tokens", "8")


def named(docker: Box) -> str:
    """What compose has called its service: `chat_engine_1`, since its second version `chat-engine-1`."""
    return docker.run("docker ps --filter name=engine --format '{{.Names}}'", check=True).stdout.strip()


def test_what_died_and_what_dies_again_and_again(docker: Box, triage: Triage) -> None:
    dies = triage(docker, "diagnose", "dock", "--unit", "dies", code=1)
    assert dies["incidents"][0]["initiator"]["type"] == "IndexError"
    assert (dies["deployment"]["manager"], dies["deployment"]["layout"]["pp"]) == ("docker", 8)
    assert dies["deployment"]["image"] == "lmsysorg/sglang:v0.5.11"
    loops = triage(docker, "diagnose", "dock", "--unit", "loops", code=1)
    assert loops["restarts"]["count"] > 1
    assert loops["restarts"]["loop"]
    assert loops["incidents"][-1]["initiator"]["type"] == "IndexError"


def test_what_was_killed_for_its_memory(docker: Box, triage: Triage) -> None:
    greedy = triage(docker, "diagnose", "dock", "--unit", "greedy", code=1)
    assert greedy["deployment"]["result"] == "oom-kill"
    assert greedy["incidents"][0]["verdict"]["category"] == "host-oom"


def test_a_service_of_compose_is_proven_and_not_changed(docker: Box, triage: Triage) -> None:
    found = triage(docker, "diagnose", "dock", "--unit", named(docker))
    assert found["deployment"]["version"] == "0.5.11"
    proven = triage(docker, "verify", "dock", "--unit", named(docker), *BRIEF)
    assert proven["start"]["ready"]
    refused = triage(docker, "patch", "dock", "--unit", named(docker), "--apply", "--yes", code=4)
    assert "--export dockerfile" in refused


def test_what_runs_in_a_container_ends_with_docker_exec(docker: Box) -> None:
    with contextlib.closing(
        open_connection("dock", ConnectionOptions(ssh_config=docker.ssh_config()))
    ) as way:
        ends_with_its_client(docker, way, "docker", named(docker))


def test_who_else_listens_on_the_host_is_not_taken_for_it(docker: Box) -> None:
    with contextlib.closing(
        open_connection("dock", ConnectionOptions(ssh_config=docker.ssh_config()))
    ) as way:
        knows_its_own_listener(docker, way, named(docker))


def test_a_file_is_read_through_links_and_not_through_every_link(docker: Box) -> None:
    docker.run(f"docker exec -i {named(docker)} python3 -", stdin=LINKS, check=True)
    id = docker.run(["docker", "inspect", "--format", "{{.Id}}", named(docker)], check=True).stdout.strip()
    connection = open_connection("dock", ConnectionOptions(ssh_config=docker.ssh_config()))
    evidence = LiveEvidence(connection)
    assert evidence.ask(ReadContainerFile("docker", id, "/hub/config.json")).value == "{}"
    refused = evidence.ask(ReadContainerFile("docker", id, "/hub/a.py"))
    assert "is no *.py" in refused.missing
    tree = EvidenceTree(evidence, "/hub/sglang", ("docker", id))
    assert tree.read("sglang.absent") is None
    connection.close()


LINKS = """
import os
os.makedirs("/hub/sglang")
open("/hub/b", "w").write("{}")
os.symlink("b", "/hub/config.json")
os.symlink("/etc/passwd", "/hub/a.py")
"""
