"""podman itself, of root and of a user, over ssh."""

from __future__ import annotations

import contextlib

import pytest

from tests.e2e.box import Box
from tests.e2e.containers.conftest import Triage, ends_with_its_client
from triage.hosts import ConnectionOptions, open_connection

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
BRIEF = ("--requests", "2", "--repeats", "1", "--concurrency", "1", "--max-tokens", "8")


EACH = pytest.mark.parametrize("where", ["pod", "ops@pod"])


@EACH
def test_what_died_and_what_dies_again_and_again(podman: Box, triage: Triage, where: str) -> None:
    dies = triage(podman, "diagnose", where, "--unit", "dies", code=1)
    assert dies["incidents"][0]["initiator"]["type"] == "IndexError"
    assert (dies["deployment"]["manager"], dies["deployment"]["layout"]["pp"]) == ("podman", 8)
    loops = triage(podman, "diagnose", where, "--unit", "loops", code=1)
    assert loops["restarts"]["count"] > 1
    assert loops["restarts"]["loop"]
    assert loops["incidents"][-1]["initiator"]["type"] == "IndexError"


@EACH
def test_what_was_killed_for_its_memory(podman: Box, triage: Triage, where: str) -> None:
    """podman before 5.0 does not find what conmon leaves of it, and says `"OOMKilled": false`."""
    greedy = triage(podman, "diagnose", where, "--unit", "greedy", code=1)
    assert (greedy["deployment"]["result"], greedy["deployment"]["exit_status"]) == ("signal", "137")
    commands = [
        remedy["command"] for each in greedy["incidents"][0]["diagnoses"] for remedy in each["remedies"]
    ]
    assert any("journalctl -k" in command for command in commands)  # which knows, as a box's does not


@EACH
def test_a_service_is_proven_and_not_changed(podman: Box, triage: Triage, where: str) -> None:
    found = triage(podman, "diagnose", where, "--unit", "serves")
    assert found["deployment"]["version"] == "0.5.11"
    proven = triage(podman, "verify", where, "--unit", "serves", *BRIEF)
    assert proven["start"]["ready"]
    refused = triage(podman, "patch", where, "--unit", "serves", "--apply", "--yes", code=4)
    assert "--export dockerfile" in refused


@EACH
def test_what_runs_in_a_container_ends_with_podman_exec(podman: Box, where: str) -> None:
    with contextlib.closing(open_connection(where, ConnectionOptions(ssh_config=podman.ssh_config()))) as way:
        ends_with_its_client(podman, way, "podman", "serves")
