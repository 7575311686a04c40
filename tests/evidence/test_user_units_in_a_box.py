"""A real systemd of a user: what its user can see of services that crash, and their restart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.box import Box, why_not
from triage.common.errors import UnreachableError
from triage.evidence.cases.case import read_case, write_case
from triage.evidence.catalogue.journal import entries
from triage.evidence.discovery.deployments import discover
from triage.evidence.discovery.managers import about_units_of
from triage.evidence.live import LiveEvidence
from triage.evidence.log_sources import log_sources
from triage.evidence.model import Deployment
from triage.evidence.recorded import RecordedEvidence
from triage.hosts import Connection, ConnectionOptions, open_connection
from triage.verify.events import Event, LogLine
from triage.verify.history import History
from triage.verify.options import Options
from triage.verify.service.deployed import service_of
from triage.workflows.verify import verify

pytestmark = pytest.mark.e2e

SERVER = """\
import os, signal, sys, time
print("serves", sys.argv[1:], flush=True)
while "--slow" in sys.argv:
    sum(range(1_000_000))
    time.sleep(0.02)
if "--live" in sys.argv:
    time.sleep(1000)
print("last words", flush=True)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""
UNIT = "[Service]\nExecStart=/opt/sglang/bin/python -m sglang.launch_server"
PLACE = "/home/ops/.config/systemd/user"
# Debian's libpam-systemd and dbus-user-session do this; the box has neither.
MANAGER = "[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"
BUS_SOCKET = "[Socket]\nListenStream=%t/bus\n"
BUS = """\
[Unit]
Requires=dbus.socket
[Service]
Type=notify
ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --syslog-only
"""
SETUP = """\
set -e
python3 -m venv --without-pip /opt/sglang
site=$(echo /opt/sglang/lib/python3*/site-packages)
mkdir $site/sglang $site/sglang-0.5.11.dist-info
cp /opt/server.py $site/sglang/launch_server.py; touch $site/sglang/__init__.py
printf 'Metadata-Version: 2.1\\nName: sglang\\nVersion: 0.5.11\\n' > $site/sglang-0.5.11.dist-info/METADATA
chown -R ops: /home/ops; mkdir /etc/systemd/user/sockets.target.wants
ln -s ../dbus.socket /etc/systemd/user/sockets.target.wants/
systemctl daemon-reload; loginctl enable-linger ops
until systemctl is-active -q user@$(id -u ops); do sleep 0.1; done
own() { runuser -u ops -- env XDG_RUNTIME_DIR=/run/user/$(id -u ops) systemctl --user "$@"; }
own start dead live
until own is-failed -q dead; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = why_not()
    if reason:
        refuse = pytest.fail if os.environ.get("TRIAGE_REQUIRE_E2E") == "1" else pytest.skip
        refuse(reason)
    files = {
        "/opt/server.py": SERVER,
        "/etc/systemd/system/user@.service.d/runtime.conf": MANAGER,
        "/etc/systemd/user/dbus.socket": BUS_SOCKET,
        "/etc/systemd/user/dbus.service": BUS,
        f"{PLACE}/dead.service": f'{UNIT} --model-path "/srv/a model" --pp-size 8\n',
        f"{PLACE}/live.service": f"{UNIT} --live --tp 4\n",
        f"{PLACE}/slow.service": f"{UNIT} --slow\n",
    }
    with Box("gpu-own", files=files) as running:
        running.run(SETUP, check=True)
        yield running


@pytest.fixture
def connection(box: Box) -> Iterator[Connection]:
    options = ConnectionOptions(ssh_config=box.ssh_config())
    with closing(open_connection(f"ops@{box.name}", options)) as opened:
        yield opened


def messages(evidence: LiveEvidence | RecordedEvidence, deployment: Deployment) -> list[str]:
    logged = (source.data[:].decode() for source in log_sources(evidence, deployment))
    return [entry["MESSAGE"] for text in logged for entry in entries(text)]


def test_dead_and_alive_beside_each_other(connection: Connection) -> None:
    evidence = LiveEvidence(connection)
    dead, live = discover(evidence)
    assert (dead.unit, dead.manager, dead.state, dead.exit_status) == (
        "dead.service",
        "systemd-user",
        "failed",
        "9/KILL",
    )
    assert (dead.model, str(dead.layout), dead.version) == ("/srv/a model", "pp8", "0.5.11")
    assert (live.unit, live.manager, live.state, str(live.layout)) == (
        "live.service",
        "systemd-user",
        "active",
        "tp4",
    )
    assert live.serving_pid == live.main_pid


def test_the_journal_of_the_run_without_any_right(connection: Connection) -> None:
    """ops is in no group that may read the system's journal; a user's own is kept on disk."""
    connection.run(("sudo", "sh", "-c", "mkdir -p /var/log/journal && journalctl --flush"))
    evidence = LiveEvidence(connection)
    (dead,) = discover(evidence, "dead")
    connection.run(("sh", "-c", f"XDG_RUNTIME_DIR=/run/user/$(id -u) systemctl --user restart {dead.unit}"))
    connection.run(("sh", "-c", "sleep 1"))
    evidence = LiveEvidence(connection)
    (again,) = discover(evidence, "dead")
    assert again.invocation != dead.invocation
    said = messages(evidence, again)
    assert [text for text in said if text == "last words"] == ["last words"]
    assert said[-1] == "dead.service: Failed with result 'signal'."
    runs = evidence.ask(about_units_of("systemd-user").runs("dead.service")).require()
    assert (runs[-1].invocation, runs[-1].result) == (again.invocation, "signal")


def test_a_captured_case_tells_the_same(connection: Connection, tmp_path: Path) -> None:
    evidence = LiveEvidence(connection)
    (dead,) = discover(evidence, "dead")
    told = messages(evidence, dead)
    write_case(tmp_path / "case", evidence, "dead")
    replayed = RecordedEvidence(read_case(tmp_path / "case"))
    (found,) = discover(replayed, "dead")
    assert (found.unit, found.manager, found.invocation) == (dead.unit, dead.manager, dead.invocation)
    assert messages(replayed, found) == told


def test_root_does_not_ask_it(box: Box) -> None:
    with closing(open_connection(box.name, ConnectionOptions(ssh_config=box.ssh_config()))) as connection:
        (found,) = discover(LiveEvidence(connection))
    assert found.manager == "process"
    assert "live.service of the own systemd of ops" in found.disagreements[0]


def test_its_restart_needs_no_rights(connection: Connection) -> None:
    (live,) = discover(LiveEvidence(connection), "live")
    service = service_of(connection, live)
    assert service is not None
    before = service.state()
    assert (before.active, before.pid) == ("active", live.main_pid)
    service.restart()
    while (after := service.state()).run == before.run or after.pending:
        pass
    assert (after.active, after.dead) == ("active", False)
    with closing(service.follow(after.run, 20)) as chunks:  # type: ignore[type-var]
        assert any(b"serves" in chunk for chunk in chunks)


def test_one_that_dies_while_it_starts_ends_the_wait(connection: Connection, tmp_path: Path) -> None:
    (dead,) = discover(LiveEvidence(connection), "dead")
    events: list[Event] = []
    options, history = Options(timeout=300), History(tmp_path)
    result = verify(connection, replace(dead, port=9), options, events.append, history=history)
    assert (result.verdict, result.start.died) == ("failed", True)
    assert result.reason.endswith("failed, result signal, status 9/KILL")
    assert LogLine("last words") in events


@pytest.mark.parametrize(
    ("unit", "reason"), [("live", "it hangs: no line for "), ("slow", "not ready after 6 s; ")]
)
def test_a_hang_is_told_from_a_slow_load(
    connection: Connection, tmp_path: Path, unit: str, reason: str
) -> None:
    (found,) = discover(LiveEvidence(connection), unit)
    events: list[Event] = []
    options, history = Options(timeout=6, patience=2.0), History(tmp_path)
    result = verify(connection, replace(found, port=9), options, events.append, history=history)
    assert (result.verdict, result.start.died) == ("failed", False)
    assert result.reason.startswith(reason)
    assert any(isinstance(event, LogLine) and event.text.startswith("serves") for event in events)


def test_a_unit_that_is_not_there(connection: Connection) -> None:
    gone = Deployment("gone.service", manager="systemd-user", unit="gone.service")
    service = service_of(connection, gone)
    assert service is not None
    with pytest.raises(UnreachableError, match="not-found"):
        service.state()
