"""One crash as four releases of systemd told it, Debian 11 to sid: `python -m tests.e2e.systemd.record`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from triage.evidence.catalogue import (
    Journal,
    JournalAccess,
    Processes,
    UnitCommand,
    UnitProperties,
    UnitRuns,
    UserJournal,
    UserUnitProperties,
    UserUnitRuns,
)
from triage.evidence.catalogue.journal import entries
from triage.logs.model import LogSource
from triage.logs.reading.reader import read_lines

Ask = Callable[..., Any]
NAME = "dead.service"
WORDS = [r"bad \xff " + "\x1b[31mred", "last words"]
END = [
    "dead.service: Main process exited, code=killed, status=9/KILL",
    "dead.service: Failed with result 'signal'.",
]


@pytest.fixture(params=[247, 252, 257, 262])
def version(request: pytest.FixtureRequest) -> str:
    return f"systemd-{request.param}"


@pytest.mark.parametrize("kind", [UnitProperties, UserUnitProperties])
def test_the_unit(ask: Ask, version: str, kind: type[UnitProperties]) -> None:
    unit = ask(kind(NAME), f"{version}/{kind.name}")
    assert (unit.id, unit.active_state, unit.result, unit.exit_status) == (NAME, "failed", "signal", "9/KILL")
    assert (unit.environment, unit.main_pid) == ({"NCCL_DEBUG": "WARN", "HF_HOME": "/srv/hf"}, None)
    assert "2026" < unit.started <= unit.ended < "2030"
    assert unit.argv[:2] == ("/bin/sh", "-c")
    assert unit.properties["LimitMEMLOCK"] == "infinity"
    assert unit.properties["StandardOutput"] == "journal"


def test_its_command(ask: Ask, version: str) -> None:
    command = ask(UnitCommand(NAME), f"{version}/unit-command")
    assert (command.program, len(command.argv), command.flags) == ("/bin/sh", 3, frozenset())


@pytest.mark.parametrize(
    ("unit", "runs"), [(UnitProperties, UnitRuns), (UserUnitProperties, UserUnitRuns)], ids=["system", "user"]
)
def test_its_runs(ask: Ask, version: str, unit: type[UnitProperties], runs: type[UnitRuns]) -> None:
    last = ask(runs(NAME), f"{version}/{runs.name}")[-1]
    assert (last.invocation, last.result) == (ask(unit(NAME), f"{version}/{unit.name}").invocation, "signal")


@pytest.mark.parametrize(
    ("unit", "journal"),
    [(UnitProperties, Journal), (UserUnitProperties, UserJournal)],
    ids=["system", "user"],
)
def test_its_journal(ask: Ask, version: str, unit: type[UnitProperties], journal: type[Journal]) -> None:
    run = ask(unit(NAME), f"{version}/{unit.name}").invocation
    text = ask(journal(NAME, run), f"{version}/{journal.name}")
    said = [entry["MESSAGE"] for entry in entries(text)]
    assert re.fullmatch(r"Started dead\.service( - .*)?\.", said[0])
    assert [line for line in said if line in (*WORDS, *END)] == [*WORDS, *END]
    lines = list(read_lines(LogSource("journal", text.encode())))
    assert {line.invocation for line in lines} == {run}
    assert [line.author for line in lines if line.text in ("last words", END[1])] == ["program", "manager"]


def test_access_and_processes(ask: Ask, version: str) -> None:
    assert ask(JournalAccess(), f"{version}/journal-access") is True
    first, *rest = ask(Processes(), f"{version}/processes")
    assert (first.pid, first.user) == (1, "root")
    assert "systemd" in first.args
    assert first.started <= rest[0].started
