"""podman itself, as root, over ssh."""

from __future__ import annotations

import contextlib

import pytest

from tests.e2e.box import Box
from tests.e2e.containers.conftest import Triage, ends_with_its_client
from triage.hosts import ConnectionOptions, open_connection

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
BRIEF = ("--requests", "2", "--repeats", "1", "--concurrency", "1", "--max-tokens", "8")


def test_what_died_and_what_dies_again_and_again(podman: Box, triage: Triage) -> None:
    dies = triage(podman, "diagnose", "pod", "--unit", "dies", code=1)
    assert dies["incidents"][0]["initiator"]["type"] == "IndexError"
    assert (dies["deployment"]["manager"], dies["deployment"]["layout"]["pp"]) == ("podman", 8)
    loops = triage(podman, "diagnose", "pod", "--unit", "loops", code=1)
    assert loops["restarts"]["count"] > 1
    assert loops["restarts"]["loop"]
    assert loops["incidents"][-1]["initiator"]["type"] == "IndexError"


def test_a_service_is_proven_and_not_changed(podman: Box, triage: Triage) -> None:
    found = triage(podman, "diagnose", "pod", "--unit", "serves")
    assert found["deployment"]["version"] == "0.5.11"
    proven = triage(podman, "verify", "pod", "--unit", "serves", *BRIEF)
    assert proven["start"]["ready"]
    refused = triage(podman, "patch", "pod", "--unit", "serves", "--apply", "--yes", code=4)
    assert "--export dockerfile" in refused


def test_what_runs_in_a_container_ends_with_podman_exec(podman: Box) -> None:
    with contextlib.closing(open_connection("pod", ConnectionOptions(ssh_config=podman.ssh_config()))) as way:
        ends_with_its_client(podman, way, "podman", "serves")
