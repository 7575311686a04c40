"""A real systemd, journald and sshd: what each kind of user can see of services that crash."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Box, why_not
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.cases.case import read_case, write_case
from triage.evidence.catalogue import (
    JournalAccess,
    KnownServiceUnits,
    PythonTree,
    ReadFile,
    ServiceUnits,
    UnitRuns,
)
from triage.evidence.catalogue.journal import entries
from triage.evidence.catalogue.policy import sudoers
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.log_sources import log_sources
from triage.evidence.recorded import RecordedEvidence
from triage.hosts import ConnectionOptions, open_connection
from triage.hosts.become import RootConnection
from triage.logs import told_by

pytestmark = pytest.mark.e2e
TOKEN = "hf_" + "a1" * 16

SERVER = f"""\
import os, signal, sys, time
print("server_args=ServerArgs(pp_size=8, api_key='{TOKEN}')" + "x" * 5000, flush=True)
sys.stderr.buffer.write(b"bad \\xff \\x1b[31mred\\x1b[0m\\r\\n")
sys.stderr.flush()
if "--live" in sys.argv:
    time.sleep(1000)
if "--flood" in sys.argv:
    print("line\\n" * 2000, flush=True)
    time.sleep(1.5)
print("last words", flush=True)
time.sleep(0.2)
os.kill(os.getpid(), signal.SIGKILL)
"""
DEAD = f"""\
[Service]
User=svc
WorkingDirectory=/srv
Environment=PYTHONUNBUFFERED=1 HF_TOKEN={TOKEN} "NCCL_DEBUG=WARN"
ExecStart=/opt/sglang/bin/python -m sglang.launch_server --model-path "/srv/a model" --pp-size 8
[Install]
WantedBy=multi-user.target
"""
LIVE = """\
[Service]
User=svc
Environment=NCCL_DEBUG=INFO
ExecStart=/bin/bash -c 'source /opt/sglang/bin/activate && python -m sglang.launch_server --live --tp 4'
"""
LOOP = """\
[Service]
ExecStart=/bin/sh -c 'test -e /run/lives && L=--live; exec /opt/sglang/bin/python -m sglang.launch_server $L'
Restart=always
RestartSec=1
"""
FLOOD = """\
[Service]
LogRateLimitIntervalSec=1
LogRateLimitBurst=20
ExecStart=/opt/sglang/bin/python -m sglang.launch_server --flood
"""
PASSWORD = "correct horse"
SETUP = f"""\
set -e
useradd --create-home --groups sudo boss; echo 'boss:{PASSWORD}' | chpasswd
useradd --create-home svc; useradd --create-home plain; useradd --create-home narrow
useradd --create-home asked; echo 'asked:{PASSWORD}' | chpasswd
python3 -m venv --without-pip /opt/sglang
site=$(echo /opt/sglang/lib/python3*/site-packages)
mkdir -p $site/sglang $site/sglang-0.5.11.dist-info
cp /opt/server.py $site/sglang/launch_server.py; touch $site/sglang/__init__.py
printf 'Metadata-Version: 2.1\\nName: sglang\\nVersion: 0.5.11\\n' > $site/sglang-0.5.11.dist-info/METADATA
systemctl daemon-reload
systemctl enable -q dead; systemctl start dead live
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = why_not()
    if reason:
        refuse = pytest.fail if os.environ.get("TRIAGE_REQUIRE_E2E") == "1" else pytest.skip
        refuse(reason)
    files = {
        "/opt/server.py": SERVER,
        "/etc/systemd/system/dead.service": DEAD,
        "/etc/systemd/system/live.service": LIVE,
        "/etc/systemd/system/loop.service": LOOP,
        "/etc/systemd/system/flood.service": FLOOD,
        "/etc/sudoers.d/narrow": "\n".join(sudoers()).replace("USER ", "narrow ") + "\n",
        "/etc/sudoers.d/asked": "asked ALL=(root) PASSWD: TRIAGE\n",
    }
    with Box("gpu-node7", files=files) as running:
        running.run(SETUP, check=True)
        running.run("until systemctl is-failed -q dead; do sleep 0.1; done", check=True)
        yield running


Evidence = Callable[..., LiveEvidence]


@pytest.fixture
def evidence(box: Box) -> Iterator[Evidence]:
    """Evidence of the box, as one of its users."""
    opened = []

    def ask_as(user: str, become: bool = False, **more: Any) -> LiveEvidence:
        options = ConnectionOptions(ssh_config=box.ssh_config(), become=become, **more)
        connection = open_connection(f"{user}@{box.name}", options)
        opened.append(connection)
        return LiveEvidence(connection)

    yield ask_as
    for connection in opened:
        connection.close()


def messages(evidence: LiveEvidence | RecordedEvidence, unit: str) -> list[str]:
    (deployment,) = discover(evidence, unit)
    return [
        entry["MESSAGE"]
        for source in log_sources(evidence, deployment)
        for entry in entries(source.data.decode())
    ]


@pytest.mark.parametrize("user", ["root", "engineer", "ops"])
def test_the_dead_service_and_its_tree(evidence: Evidence, user: str) -> None:
    found = {each.unit: each for each in discover(evidence(user))}
    dead = found["dead.service"]
    assert next(iter(found)) == "dead.service"
    assert (dead.engine, dead.state, dead.result, dead.exit_status) == (
        "sglang",
        "failed",
        "signal",
        "9/KILL",
    )
    assert dead.python == "/opt/sglang/bin/python"
    assert dead.package_root.endswith("/site-packages/sglang")
    assert dead.version == "0.5.11"
    assert (dead.model, str(dead.layout)) == ("/srv/a model", "pp8")
    assert dead.environment == {"PYTHONUNBUFFERED": "1", "NCCL_DEBUG": "WARN"}
    assert len(dead.invocation) == 32


@pytest.mark.parametrize("user", ["root", "engineer"])
def test_the_journal_of_its_run(evidence: Evidence, user: str) -> None:
    asked = evidence(user)
    told = messages(asked, "dead")
    assert {each.key.partition(" ")[0]: each.missing for each in asked.recorded}["journal-windows"] == ""
    assert told[0].startswith("Started dead.service")
    assert any(len(text) > 5000 and "api_key='<token-1>'" in text for text in told)
    assert any(text.startswith("bad \\xff \x1b[31mred") for text in told)
    assert "last words" in told
    assert told[-1] == "dead.service: Failed with result 'signal'."
    assert TOKEN not in "".join(told)


def test_the_live_service_is_told_by_its_process(evidence: Evidence) -> None:
    (live,) = discover(evidence("root"), "live")
    assert (live.state, str(live.layout)) == ("active", "tp4")
    assert live.environment["VIRTUAL_ENV"] == "/opt/sglang"
    assert live.environment["NCCL_DEBUG"] == "INFO"
    assert live.environment["HOME"] == "/home/svc"
    assert live.package_root.endswith("/site-packages/sglang")


def test_without_the_right_to_read_environments_the_unit_must_do(evidence: Evidence) -> None:
    (live,) = discover(evidence("engineer"), "live")
    assert live.environment["NCCL_DEBUG"] == "INFO"
    assert live.package_root.endswith("/site-packages/sglang")


def test_as_root_the_services_interpreter_runs_as_its_user(evidence: Evidence) -> None:
    asked = evidence("root")
    (dead,) = discover(asked, "dead")
    commands = [each.command for each in asked.recorded if each.key.startswith(PythonTree.name)]
    assert [command.split()[:4] for command in commands] == [["runuser", "-u", "svc", "--"]]
    assert dead.version == "0.5.11"


def test_a_user_with_a_journal_of_his_own_is_told_that_there_is_more(box: Box, evidence: Evidence) -> None:
    """journalctl shows that one, and beside `--output=export` not a word of the rest."""
    box.run(["useradd", "--create-home", "hasown"], check=True)
    box.run(["logger", "my own words"], user="hasown", check=True)
    box.run("journalctl --sync; until ls /var/log/journal/*/user-*.journal; do sleep 0.1; done", check=True)
    asked = evidence("hasown")
    (dead,) = discover(asked, "dead")
    with pytest.raises(UnreachableError, match="systemd-journal"):
        log_sources(asked, dead)
    assert asked.ask(JournalAccess()).value is False


def test_a_user_without_any_right_is_told_which_one(evidence: Evidence) -> None:
    asked = evidence("plain")
    (dead,) = discover(asked, "dead")
    with pytest.raises(UnreachableError) as caught:
        log_sources(asked, dead)
    assert "systemd-journal" in caught.value.happened
    assert "usermod -aG systemd-journal" in str(caught.value.next)


def test_becoming_root(evidence: Evidence) -> None:
    (live,) = discover(evidence("ops", become=True), "live")
    assert live.environment["HOME"] == "/home/svc"
    assert evidence("ops", become=True).ask(ReadFile("/etc/shadow")).value
    assert evidence("ops").ask(ReadFile("/etc/shadow")).value is None


def test_sudo_that_asks_for_a_password_says_so(evidence: Evidence) -> None:
    with pytest.raises(UnreachableError) as caught:
        evidence("engineer", become=True)
    assert "password" in caught.value.happened
    assert "triage policy" in str(caught.value.next)


def test_a_sudo_password_is_asked_for_once_and_shown_to_nobody(box: Box, evidence: Evidence) -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return PASSWORD

    as_boss = evidence("boss", become=True, ask=ask)
    assert as_boss.ask(ReadFile("/etc/shadow")).value
    (live,) = discover(as_boss, "live")  # what it feeds to an interpreter arrives whole
    assert live.environment["HOME"] == "/home/svc"
    assert live.version == "0.5.11"
    assert len(asked) == 1
    assert asked[0].startswith("sudo password on boss@")
    seen = box.run("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; journalctl --no-pager", check=True).stdout
    assert "COMMAND=" in seen
    assert PASSWORD not in seen
    assert PASSWORD not in repr(as_boss.recorded)


def test_a_sudo_password_where_sudo_wants_none_does_not_reach_the_command(box: Box) -> None:
    options = ConnectionOptions(ssh_config=box.ssh_config())
    with closing(open_connection(f"ops@{box.name}", options)) as inner:
        connection = RootConnection(inner, PASSWORD, guarded=True)
        assert connection.run(["cat"], stdin=b"a\nb").stdout == b"a\nb"
        assert b"".join(connection.stream(["cat"], timeout=10, stdin=b"c")) == b"c"
        assert connection.run(["sh", "-c", "id -u; exit 7"]).code == 7


def test_a_wrong_sudo_password_is_tried_once(box: Box, evidence: Evidence) -> None:
    with pytest.raises(UnreachableError) as caught:
        evidence("boss", become=True, ask=lambda prompt: "wrong")
    assert caught.value.to.startswith("boss@")
    assert "tried once" in str(caught.value.next)
    counted = box.run("journalctl _COMM=sudo | grep -c 'incorrect password attempt'", check=True).stdout
    assert int(counted) == 1


def test_a_log_in_with_a_password(box: Box, tmp_path: Path) -> None:
    config = box.ssh_config().read_text().replace("IdentityFile", "#IdentityFile").replace("BatchMode", "#")
    (tmp_path / "config").write_text(config)
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return PASSWORD

    options = ConnectionOptions(ssh_config=tmp_path / "config", ask=ask)
    with closing(open_connection(f"boss@{box.name}", options)) as connection:
        assert connection.run(["id", "-un"]).stdout == b"boss\n"
    assert asked == [f"Password of boss@{box.address}:22: "]
    wrong = ConnectionOptions(ssh_config=tmp_path / "config", ask=lambda prompt: "no")
    with pytest.raises(UnreachableError, match="password: refused"):
        open_connection(f"boss@{box.name}", wrong)


@pytest.mark.parametrize("user", ["narrow", "asked"])
def test_the_sudoers_lines_of_the_policy_are_enough_and_not_more(evidence: Evidence, user: str) -> None:
    asked = evidence(user, become=True, ask=lambda prompt: PASSWORD)
    assert "last words" in messages(asked, "dead")
    (live,) = discover(asked, "live")
    assert live.environment["HOME"] == "/home/svc"
    assert asked.ask(JournalAccess()).value is True
    assert "Permission denied" in asked.ask(ReadFile("/etc/shadow")).missing


def test_a_time_limit_ends_a_command_of_root(box: Box) -> None:
    options = ConnectionOptions(ssh_config=box.ssh_config(), become=True)
    with closing(open_connection(f"ops@{box.name}", options)) as connection:
        assert connection.run(["sleep", "96.5501"], timeout=1).cut == "time"
    box.run("while pgrep -f 'sleep 96[.]5501'; do sleep 0.1; done", check=True, timeout=15)


def test_a_service_in_a_crash_loop_shows_the_run_that_failed(box: Box, evidence: Evidence) -> None:
    box.run("systemctl start loop; sleep 1; touch /run/lives", check=True)
    box.run("until pgrep -P 1 -f 'launch_server --live$'; do sleep 0.2; done", check=True)
    asked = evidence("engineer")
    (loop,) = discover(asked, "loop")
    assert loop.state == "active"
    assert loop.restarts > 0
    failed, *_ = log_sources(asked, loop)
    assert b"last words" in failed.data
    assert b"Failed with result 'signal'" in failed.data


def test_what_journald_did_not_keep(box: Box, evidence: Evidence) -> None:
    box.run("systemctl start flood; until systemctl is-failed -q flood; do sleep 0.1; done", check=True)
    asked = evidence("engineer")
    (flood,) = discover(asked, "flood")
    told = told_by(log_sources(asked, flood))
    assert 1000 < told.lost["flood.service"] < 2000
    (incident,) = told.incidents
    assert incident.facts["pp_size"] == "8"  # said before the hole


def test_a_run_that_systemd_has_forgotten(box: Box, evidence: Evidence) -> None:
    box.put("/etc/systemd/system/forgotten.service", DEAD.replace("--pp-size", "--live --pp-size"))
    box.run(
        "systemctl daemon-reload; systemctl start forgotten; sleep 1; systemctl stop forgotten", check=True
    )
    asked = evidence("engineer")
    (found,) = discover(asked, "forgotten")
    (run,) = asked.ask(UnitRuns("forgotten.service")).require()
    assert found.invocation == run.invocation
    assert found.state == "inactive"
    assert any("server_args" in text for text in messages(asked, "forgotten"))


QUIET = """\
[Service]
ExecStart=/bin/sh -c "/opt/sglang/bin/python -m sglang.launch_server | cat"
"""


def test_a_service_that_ended_well_and_then_lost_its_file(box: Box, evidence: Evidence) -> None:
    file = "/etc/systemd/system/quiet.service"
    box.put(file, QUIET)
    box.run("systemctl daemon-reload; systemctl start quiet", check=True)
    box.run("until [ inactive = $(systemctl is-active quiet) ]; do sleep 0.1; done", check=True)
    reader = evidence("engineer")
    assert "quiet.service" not in {unit.id for unit in reader.ask(ServiceUnits()).require()}
    known = {unit.id: unit for unit in reader.ask(KnownServiceUnits()).require()}
    assert (known["quiet.service"].load_state, known["dead.service"].load_state) == ("loaded", "loaded")
    assert not [unit for unit in known if "@." in unit]
    box.run(f"rm {file}; systemctl daemon-reload", check=True)
    reader = evidence("engineer")
    assert {u.id: u.load_state for u in reader.ask(KnownServiceUnits()).require()}[
        "quiet.service"
    ] == "not-found"
    (found,) = discover(reader, "quiet")
    assert found.invocation
    assert "systemd knows no quiet.service any more" in found.disagreements[0]
    assert "last words" in messages(reader, "quiet")


@pytest.mark.parametrize("user", ["engineer", "narrow"])
def test_a_service_that_logs_in_a_namespace_of_its_own(
    box: Box, evidence: Evidence, tmp_path: Path, user: str
) -> None:
    box.put("/etc/systemd/system/apart.service", DEAD.replace("[Service]", "[Service]\nLogNamespace=models"))
    box.run("systemctl daemon-reload; systemctl restart apart", check=True)
    box.run("until systemctl is-failed -q apart; do sleep 0.1; done; journalctl --sync", check=True)
    asked = evidence(user, become=user == "narrow")
    (apart,) = discover(asked, "apart")
    told = messages(asked, "apart")
    assert apart.log_namespace == "models"
    assert told[0].startswith("Started apart.service")
    assert "last words" in told
    assert told[-1] == "apart.service: Failed with result 'signal'."
    write_case(tmp_path / "case", asked, "apart")
    replayed = RecordedEvidence(read_case(tmp_path / "case"))
    (again,) = discover(replayed, "apart")
    assert replace(again, user=apart.user) == apart  # a case has no names of users
    assert messages(replayed, "apart") == told


def test_a_captured_case_tells_the_same(evidence: Evidence, tmp_path: Path) -> None:
    asked = evidence("root")
    (live_answer,) = discover(asked, "dead")
    told = messages(asked, "dead")
    write_case(tmp_path / "case", asked, "dead")
    replayed = RecordedEvidence(read_case(tmp_path / "case"))
    (again,) = discover(replayed, "dead")
    assert replace(again, user=live_answer.user) == live_answer  # a case has no names of users
    assert messages(replayed, "dead") == told
    files = b"".join(path.read_bytes() for path in (tmp_path / "case").rglob("*") if path.is_file())
    for secret in (TOKEN, "gpu-node7", "home/svc", "User=svc"):
        assert secret.encode() not in files


def test_a_changed_host_key(box: Box, tmp_path: Path) -> None:
    known = tmp_path / "known_hosts"
    line = (box.directory / "known_hosts").read_text().split()
    other = "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
    known.write_text(f"{line[0]} {line[1]} {other}\n")
    config = box.ssh_config().read_text().replace(str(box.directory / "known_hosts"), str(known))
    (tmp_path / "config").write_text(config)
    with pytest.raises(RefusedError, match="CHANGED"):
        open_connection(box.name, ConnectionOptions(ssh_config=tmp_path / "config", host_key="accept-new"))


def logins(box: Box) -> int:
    """How often somebody has logged in, before this question itself."""
    counted = box.run("journalctl -u ssh | grep -c 'Accepted publickey'", check=True).stdout
    return int(counted) - 1


def test_through_one_box_to_another(box: Box, tmp_path: Path) -> None:
    before = logins(box) + 1
    with Box("inner") as inner:
        config = box.ssh_config().read_text() + inner.ssh_config().read_text() + f"  ProxyJump {box.name}\n"
        (tmp_path / "config").write_text(config)
        with closing(
            open_connection("inner", ConnectionOptions(ssh_config=tmp_path / "config"))
        ) as connection:
            assert connection.run(["uname", "-n"]).stdout == b"inner\n"
    assert logins(box) == before + 1
