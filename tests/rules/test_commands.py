"""Commands of rules come out so that they can be pasted, or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from tests.rules.world import STORY, Answers, context, fault, incident
from triage.evidence.model import Deployment
from triage.logs.model import Position
from triage.rules.load import load_rules
from triage.rules.remedies.commands import runnable
from triage.rules.schema import ActionRemedy

NOON = datetime(2026, 5, 12, 12, 0, 0)
LOG = context(
    deployment=Deployment("log"),
    incident=incident(fault()),
    evidence=Answers(kind="log"),
    fault=fault(position=Position("my logs/server.log", 7), time=NOON),
)
UNKNOWN = context(deployment=Deployment("x"), incident=incident(fault()))
ACTIONS = [
    spec.command
    for rule in load_rules()
    for spec in rule.remedies
    if isinstance(spec, ActionRemedy) and spec.command
]


def test_what_is_known_of_the_run_is_filled_in_and_quoted() -> None:
    command = "journalctl -u UNIT; ls MODEL_PATH; PYTHON -m pip; --tp-size GPUS; SLURM_N N UNITS"
    assert runnable(command, context()) == (
        "journalctl -u kimi.service; ls /srv/models/Kimi-K2.6; /opt/venv/bin/python -m pip; --tp-size 8; "
        "SLURM_N N UNITS"
    )
    hostile = context(deployment=replace(STORY, unit="a b;reboot.service", model="$(reboot)"))
    assert runnable("show UNIT MODEL_PATH", hostile) == "show 'a b;reboot.service' '$(reboot)'"


def test_parts_that_lack_something_are_left_out() -> None:
    command = "systemctl show UNIT; ls MODEL_PATH; kill PID; PYTHON -m pip list; nvidia-smi -L"
    assert runnable(command, UNKNOWN) == "python3 -m pip list; nvidia-smi -L"
    assert runnable("sudo systemctl restart UNIT", UNKNOWN) == ""
    assert runnable("grep -E 'a; UNITS' x; df", UNKNOWN) == "grep -E 'a; UNITS' x; df"


def test_commands_on_a_unit_in_a_log_namespace_read_that_too() -> None:
    apart = context(deployment=replace(STORY, log_namespace="kimi<user-1>"))
    asked = "journalctl '--namespace=+kimi<user-1>' -u kimi.service -b; journalctl -k"
    assert runnable("journalctl -u UNIT -b; journalctl -k", apart) == asked


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("journalctl -u UNIT -b", "journalctl --user-unit kimi.service -b"),
        ("sudo systemctl restart UNIT", "systemctl --user restart kimi.service"),
        ("systemctl cat UNIT; journalctl -k -b", "systemctl --user cat kimi.service; journalctl -k -b"),
        ("systemctl restart nvidia-fabricmanager", "systemctl restart nvidia-fabricmanager"),
    ],
)
def test_commands_on_a_user_unit_ask_the_systemd_that_has_it(command: str, asked: str) -> None:
    assert runnable(command, context(deployment=replace(STORY, manager="systemd-user"))) == asked


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("journalctl -u UNIT -b -o cat | grep -m5 x; df -h", "docker logs kimi 2>&1 | grep -m5 x; df -h"),
        ("sudo systemctl restart UNIT", "docker restart kimi"),
        ("systemctl show UNIT -p LimitNOFILE", ""),
    ],
)
def test_commands_on_a_container_ask_its_tool(command: str, asked: str) -> None:
    docker = replace(STORY, manager="docker", name="kimi", unit="", container="0f3c")
    assert runnable(command, context(deployment=docker)) == asked


def test_a_log_in_a_file_is_read_from_there() -> None:
    asked = runnable('journalctl -u UNIT --since SINCE | grep -nE "died|x" | head; systemctl cat UNIT', LOG)
    assert asked == "cat 'my logs/server.log' | grep -nE \"died|x\" | head"
    piped = replace(LOG, fault=fault(position=Position("standard input", 7)))
    assert runnable("journalctl -u UNIT | less", piped) == ""


@pytest.mark.parametrize(
    ("time", "since"),
    [
        (NOON, "--since '2026-05-12 11:50:00'"),
        (NOON.replace(tzinfo=timezone.utc), "--since @1778586600"),
        (NOON.replace(tzinfo=timezone(timedelta(hours=2))), "--since @1778579400"),
        (None, "-b"),
    ],
)
def test_a_log_is_read_from_some_minutes_before_the_fault(time: datetime | None, since: str) -> None:
    at = context(fault=fault(time=time), incident=incident(fault()))
    assert runnable("journalctl -k --since SINCE | grep x", at) == f"journalctl -k {since} | grep x"
    told = f"coredumpctl list {since}" if time else "coredumpctl list"
    assert runnable("coredumpctl list --since SINCE", at) == told


@pytest.mark.parametrize("command", ACTIONS)
def test_no_command_of_a_shipped_rule_names_what_nobody_knows(command: str) -> None:
    assert " ago" not in command
    for at in (context(), LOG, UNKNOWN):
        for word in ("UNIT", "SINCE", "MODEL_PATH", "PYTHON"):
            assert word not in runnable(command, at).replace("PYTHONPATH", "").split()
