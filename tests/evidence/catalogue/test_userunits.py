from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from triage.evidence.catalogue import (
    UserJournal,
    UserJournalWindows,
    UserServiceUnits,
    UserUnitCommand,
    UserUnitProperties,
    UserUnitRuns,
)
from triage.evidence.catalogue.journal import entries
from triage.evidence.model import Unanswered
from triage.logs.model import LogSource
from triage.logs.reading.reader import read_lines

Ask = Callable[..., Any]
RUN = "0229e3dbf577473e8003c053879c7f39"


def test_the_units_of_the_users_own_systemd(ask: Ask) -> None:
    units = {unit.id: unit for unit in ask(UserServiceUnits(), "user-service-units")}
    dead, live = units["dead.service"], units["live.service"]
    assert (dead.manager, dead.active_state, dead.result, dead.exit_status) == (
        "systemd-user",
        "failed",
        "signal",
        "9/KILL",
    )
    assert (live.active_state, live.main_pid, live.invocation) == (
        "active",
        117,
        "e89370f053a94420ab3452b90608556e",
    )


def test_a_manager_that_does_not_run(ask: Ask) -> None:
    with pytest.raises(Unanswered, match="Failed to connect to bus"):
        ask(UserServiceUnits(), code=1, stderr=b"Failed to connect to bus: No medium found\n")


@pytest.mark.parametrize(
    "query", [UserServiceUnits(), UserUnitProperties("a.service"), UserUnitCommand("a.service")]
)
def test_its_manager_is_found_without_a_session(query: Any) -> None:
    shell, option, script, _, tool, user, *_ = query.argv()
    assert (shell, option, user) == ("sh", "-c", "--user")
    assert "/run/user/$(id -u)" in script
    assert tool in ("systemctl", "busctl")


def test_the_runs_as_its_manager_told_them(ask: Ask) -> None:
    (run,) = ask(UserUnitRuns("dead.service"), "user-unit-runs")
    assert (run.invocation, run.started, run.ended, run.result) == (
        RUN,
        "2026-11-29T21:18:26+00:00",
        "2026-11-29T21:18:26+00:00",
        "signal",
    )


def test_the_journal_of_a_run(ask: Ask) -> None:
    text = ask(UserJournal("dead.service", RUN), "user-journal")
    said = [entry["MESSAGE"] for entry in entries(text)]
    assert (said[0], said[1], said[-1]) == (
        "Started dead.service.",
        "server_args=ServerArgs(pp_size=8)",
        "dead.service: Failed with result 'signal'.",
    )
    lines = list(read_lines(LogSource("journal", text.encode())))
    assert {line.invocation for line in lines} == {RUN}
    assert [line.author for line in lines] == ["manager", "program", "program", "manager", "manager"]


def entry(**fields: str) -> bytes:
    return "".join(f"{name}={value}\n" for name, value in fields.items()).encode() + b"\n"


def test_a_line_of_its_stream_belongs_to_the_run(ask: Ask) -> None:
    """Its process had ended before journald looked, so it has neither unit nor invocation."""
    lost = entry(MESSAGE="[PP3] Scheduler hit an exception", _STREAM_ID="31f5")
    (told,) = entries(ask(UserJournal("dead.service", RUN), stdout=lost))
    assert told["_SYSTEMD_INVOCATION_ID"] == RUN


def test_before_systemd_246_runs_are_told_apart_by_the_managers_words(ask: Ask) -> None:
    """There journald gives each line of a user's unit the invocation of the user's manager."""
    first, second = "1" * 32, "2" * 32
    told = [
        entry(MESSAGE="before", _SYSTEMD_INVOCATION_ID="f" * 32),
        entry(MESSAGE="Started dead.", USER_UNIT="dead.service", USER_INVOCATION_ID=first),
        entry(MESSAGE="one", _SYSTEMD_INVOCATION_ID="f" * 32),
        entry(MESSAGE="Started dead.", USER_UNIT="dead.service", USER_INVOCATION_ID=second),
        entry(MESSAGE="two"),
    ]
    found = list(entries(ask(UserJournal("dead.service"), stdout=b"".join(told))))
    assert [each.get("_SYSTEMD_INVOCATION_ID") for each in found] == ["f" * 32, None, first, None, second]


@pytest.mark.parametrize("query", [UserJournal("a.service", RUN), UserJournalWindows("a.service", RUN)])
def test_who_sees_only_the_own_journal_is_not_refused(query: Any, ask: Ask) -> None:
    argv = query.argv()
    assert "--quiet" in argv
    assert (
        argv.index("+") - 1
        == argv.index(f"_SYSTEMD_INVOCATION_ID={RUN}", 5)
        < argv.index(f"USER_INVOCATION_ID={RUN}")
    )
    with pytest.raises(Unanswered, match="may not read"):
        ask(query, code=1, stderr=b"No journal files were opened due to insufficient permissions.\n")
