"""Services that nohup, tmux and supervisord started, each with its own log, over ssh."""

from __future__ import annotations

import pytest

from tests.e2e.box import Box
from tests.e2e.containers.conftest import Triage

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]
LOGS = {
    "31771": "/srv/logs/nohup.log",
    "31772": "/srv/logs/tmux.log",
    "31773": "/srv/logs/supervised.log",
    "31774": "/var/log/supervisor/apart-stderr---supervisor-",
}


@pytest.mark.parametrize("where", ["hand", "ops@hand"])
def test_each_is_a_process_of_its_own_with_its_own_log(processes: Box, triage: Triage, where: str) -> None:
    first = triage(processes, "diagnose", where, "--become", code=1)
    names = [first["deployment"]["name"], *(other["name"] for other in first["others"])]
    logs = {}
    for name in names:
        told = triage(processes, "diagnose", where, "--become", "--unit", name, code=1)
        found = told["deployment"]
        assert (found["manager"], found["unit"], found["version"]) == ("process", "", "0.5.11")
        assert found["layout"]["pp"] == 8
        (incident,) = told["incidents"]
        assert incident["initiator"]["type"] == "IndexError"
        logs[found["arguments"]["port"]] = incident["initiator"]["position"]["source"]
    assert logs.keys() == LOGS.keys()
    for port, log in LOGS.items():
        assert logs[port].startswith(log)


def test_nobody_restarts_what_nobody_is_known_to_start(processes: Box, triage: Triage) -> None:
    (name,) = processes.run("pgrep --full -- '[-]-port 31773'", check=True).stdout.split()
    refused = triage(processes, "verify", "hand", "--unit", f"pid {name}", code=4)
    assert "repeat with --no-restart" in refused
    stays = ("--no-restart", "--requests", "2", "--repeats", "1", "--concurrency", "1", "--max-tokens", "8")
    assert triage(processes, "verify", "hand", "--unit", f"pid {name}", *stays)["start"]["ready"]
