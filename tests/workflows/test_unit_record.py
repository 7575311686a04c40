"""What systemd recorded of a unit, where its log tells nothing, and of one that does not stay up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.evidence.conftest import ScriptedHost, exec_start, unit_text
from triage.evidence.catalogue import Journal, ServiceUnits, UnitProperties, UnitRuns, UnmetConditions
from triage.evidence.catalogue.journal import FAILED, STARTED
from triage.hosts import Output
from triage.report import text
from triage.workflows import diagnose

UNIT, RUN = "kimi.service", "0" * 31 + "1"
SERVES = "[2026-11-29 17:00:09] The server is fired up and ready to roll!"


@pytest.fixture
def host() -> ScriptedHost:
    return ScriptedHost()


@pytest.fixture(scope="module")
def knowledge() -> diagnose.Knowledge:
    return diagnose.load_knowledge()


def export(*entries: dict[str, str]) -> bytes:
    return "".join(
        "".join(f"{name}={value}\n" for name, value in each.items()) + "\n" for each in entries
    ).encode()


def said(second: int, words: str, who: str = "python") -> dict[str, str]:
    systemd = {"UNIT": UNIT, "INVOCATION_ID": RUN, "_PID": "1"}
    own = systemd if who == "systemd" else {"_SYSTEMD_INVOCATION_ID": RUN, "_PID": "241"}
    at = {"__REALTIME_TIMESTAMP": str(1_795_971_600_000_000 + second * 1_000_000)}
    return {**at, "SYSLOG_IDENTIFIER": who, "MESSAGE": words, **own}


def ran(number: int, start: int, end: int | None, result: str = "exit-code") -> Iterator[dict[str, str]]:
    run = {"INVOCATION_ID": f"{number:032}"}
    at = 1_795_971_600_000_000
    yield {"__REALTIME_TIMESTAMP": str(at + start * 1_000_000), "MESSAGE_ID": STARTED, **run}
    if end is not None:
        yield {
            "__REALTIME_TIMESTAMP": str(at + end * 1_000_000),
            "MESSAGE_ID": FAILED,
            "UNIT_RESULT": result,
            **run,
        }


def serve(host: ScriptedHost, *journal: dict[str, str], runs: bytes = b"", **properties: object) -> None:
    command = exec_start("/opt/venv/bin/python", "-m", "sglang.launch_server", "--model-path", "/m")
    shown = unit_text(UNIT, ExecStart=command, InvocationID=RUN, **properties)
    host.commands |= {
        " ".join(ServiceUnits().argv()): shown,
        " ".join(UnitProperties(UNIT).argv()): shown,
        **{" ".join(Journal(UNIT, f"{run:032}").argv()): export(said(0, SERVES)) for run in (2, 3)},
        " ".join(Journal(UNIT, RUN).argv()): export(*journal),
        " ".join(UnitRuns(UNIT).argv()): runs,
    }


def diagnosed(host: ScriptedHost, knowledge: diagnose.Knowledge) -> tuple[diagnose.Report, str]:
    report = diagnose.diagnose(host.evidence, knowledge)
    return report, "\n".join(line.plain for line in text.lines(report))


KILLED = {
    "ActiveState": "failed",
    "Result": "signal",
    "ExecMainCode": 2,
    "ExecMainStatus": 9,
    "ExecMainExitTimestamp": "Sun 2026-11-29 17:05:00 UTC",
}


def test_a_run_whose_log_tells_nothing_is_what_systemd_says(
    host: ScriptedHost, knowledge: diagnose.Knowledge
) -> None:
    serve(host, said(0, SERVES), **KILLED)
    report, printed = diagnosed(host, knowledge)
    (found,) = report.incidents
    assert found.incident.initiator is not None
    assert found.incident.initiator.message.endswith("status=9/KILL; Failed with result 'signal'")
    assert found.verdict.certainty == "possible"
    assert "No incident" not in printed
    assert "from systemd's record of kimi.service" in printed
    assert "to find out what is missing: " in printed
    assert "kernel log could not be read" in printed


def test_an_empty_journal_says_so_besides(host: ScriptedHost, knowledge: diagnose.Knowledge) -> None:
    serve(host, **KILLED)
    report, printed = diagnosed(host, knowledge)
    assert len(report.incidents) == 1
    assert "the journal of kimi.service could not be read: it holds no line of its run" in printed


def test_a_service_that_was_stopped_did_not_fail(host: ScriptedHost, knowledge: diagnose.Knowledge) -> None:
    rows = [said(0, SERVES), said(9, "Stopping kimi.service - Kimi...", "systemd")]
    serve(host, *rows, said(10, f"{UNIT}: Failed with result 'signal'.", "systemd"), **KILLED)
    report, printed = diagnosed(host, knowledge)
    assert report.incidents == ()
    assert "No incident" in printed


@pytest.mark.parametrize(
    ("state", "before"), [("inactive", []), ("inactive", ["success"]), ("failed", ["signal"])]
)
def test_a_start_that_was_skipped_is_the_last_incident_and_hides_none_before(
    host: ScriptedHost, knowledge: diagnose.Knowledge, state: str, before: list[str]
) -> None:
    died = KILLED if state == "failed" else {}
    log = [said(0, SERVES)] if before else []
    skipped = {"ConditionResult": "no", "ConditionTimestamp": "Sun 2026-11-29 17:06:00 UTC"}
    serve(host, *log, **{**died, **skipped, "ActiveState": state})
    status = b"   `- ConditionPathExists=/srv/models was not met\n"
    host.commands[" ".join(UnmetConditions(UNIT).argv())] = Output(3, status)
    report, printed = diagnosed(host, knowledge)
    *earlier, skip = [found.incident.initiator for found in report.incidents]
    assert [fault and fault.type for fault in earlier] == [result for result in before if result != "success"]
    assert skip is not None
    assert (skip.type, skip.message) == ("condition", "ConditionPathExists=/srv/models was not met")
    assert report.incidents[-1].diagnoses[0].rule == "unit-condition-unmet"
    assert ("could not be read: it holds no line" in printed) is not bool(before)


def test_a_healthy_unit_has_no_incident_and_no_restarts(
    host: ScriptedHost, knowledge: diagnose.Knowledge
) -> None:
    serve(host, said(0, SERVES))
    report, _ = diagnosed(host, knowledge)
    assert (report.incidents, report.restarts) == ((), None)


LOOP = [*ran(1, 0, 30), *ran(2, 40, 70), *ran(3, 80, 110), *ran(4, 120, None)]
SELDOM = [*ran(1, 0, 30), *ran(2, 40, 90_000), *ran(4, 90_010, None)]


@pytest.mark.parametrize(
    ("runs", "state", "count", "line"),
    [
        (LOOP, "active", 3, "restarting in a loop: 3 times since 2026-11-29T17:00:30+00:00, last failure"
            " 2026-11-29T17:01:50+00:00 (exit-code)"),
        (LOOP, "active", 2, "restarting in a loop: 2 times since 2026-11-29T17:01:10+00:00, last failure"),
        (SELDOM, "active", 2, "restarted by systemd 2 times since 2026-11-29T17:00:30+00:00, last failure"),
        (LOOP, "active", 1, "restarted by systemd once, last failure 2026-11-29T17:01:50+00:00 (exit-code)"),
        ([], "activating", 7, "restarting in a loop: 7 times"),
    ],
)  # fmt: skip
def test_restarts_are_told_above_the_diagnosis(
    host: ScriptedHost,
    knowledge: diagnose.Knowledge,
    runs: list[dict[str, str]],
    state: str,
    count: int,
    line: str,
) -> None:
    serve(host, said(0, SERVES), runs=export(*runs), NRestarts=count, ActiveState=state)
    report, printed = diagnosed(host, knowledge)
    (told,) = [each for each in printed.splitlines() if each.startswith("restart")]
    assert told.startswith(line)
    assert report.restarts is not None
    assert ("systemd: active success" in printed) is (state == "active" and not report.restarts.loop)


def test_of_a_loop_whose_log_tells_nothing_systemd_tells_the_result(
    host: ScriptedHost, knowledge: diagnose.Knowledge
) -> None:
    serve(host, said(0, SERVES), runs=export(*LOOP), NRestarts=3)
    report, _ = diagnosed(host, knowledge)
    (found,) = report.incidents
    assert found.incident.initiator is not None
    assert (found.incident.initiator.type, found.incident.count) == ("exit-code", 3)
