"""Where the cause of a consequence must be, and what the engine finds there."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from tests.rules.test_probes import LOG, UNREAD, XID
from tests.rules.world import STORY, Answers, Tree, context, fault, incident, rule
from triage.evidence.model import Deployment
from triage.logs.model import Position
from triage.rules import cause_search
from triage.rules.engine import diagnose
from triage.rules.load import load_rules
from triage.rules.schema import Place

OWN = fault("collective-timeout", "it waited", kind="error", ranks=("TP1",))
OTHER = fault("KeyError", "'a'\nb", ranks=("TP3",), position=Position("log", 3))
TEARDOWN = fault("EOFError", "", position=Position("log", 9), role="teardown")
BENIGN = fault("Warning", "harmless", position=Position("log", 2), role="benign", ranks=("TP2",))
STARTED = datetime(2026, 5, 12, 14, 3)


def looked(place: Place, *others: Any, **changes: Any) -> list[tuple[str, str, str]]:
    more = {name: changes.pop(name) for name in ("facts", "silent_ranks", "started") if name in changes}
    of = replace(incident(OWN, *others, facts=more.get("facts")), started=more.get("started"))
    of = replace(of, silent_ranks=more.get("silent_ranks", ()))
    at = context(**{"incident": of, "fault": OWN, **changes})
    return [(found.result, found.detail, found.command) for found in cause_search.findings([place], at)]


@pytest.mark.parametrize(
    ("others", "changes", "result", "says", "command"),
    [
        ([XID], {}, "pass", "Xid: NVRM: Xid (PCI:0000:3b:00): 79", ""),
        ([XID], {"evidence": LOG}, "pass", "fallen off the bus", ""),
        ([OTHER], {}, "pass", "tells of no fault", ""),
        ([], {"evidence": LOG, "started": STARTED}, "missing", "only a log was given",
         "journalctl -k --since '2026-05-12 14:03:00' --no-pager"),
        ([], {"unread": UNREAD}, "missing", "not permitted", "sudo journalctl -k -b --no-pager"),
    ],
)  # fmt: skip
def test_the_kernel_log(
    others: list[Any], changes: dict[str, Any], result: str, says: str, command: str
) -> None:
    others = [replace(each, position=Position("kernel log", 5)) for each in others]
    ((found, detail, asked),) = looked("kernel-log", *others, **changes)
    assert (found, asked) == (result, command)
    assert says in detail


def test_other_ranks_that_failed_too_and_those_that_said_nothing() -> None:
    failed, silent = looked("other-ranks", OTHER, BENIGN, silent_ranks=("TP1", "TP2", "TP5"))
    assert failed == ("pass", "other ranks: TP3 KeyError: 'a'", "")
    assert silent == (
        "missing",
        "other ranks: TP2, TP5 ended without a word of it",
        "journalctl -u kimi.service -b -o cat --no-pager | grep -nwE 'TP2|TP5'",
    )


def test_other_ranks_that_report_nothing() -> None:
    assert looked("other-ranks", TEARDOWN) == [
        ("pass", "other ranks: none of them reports a fault in this log", "")
    ]


def test_other_hosts_only_where_there_are_some() -> None:
    assert looked("other-hosts") == []
    assert looked("other-hosts", facts={"nnodes": "1"}) == []
    assert looked("other-hosts", facts={"nnodes": "x"}) == []
    ((result, detail, command),) = looked("other-hosts", facts={"nnodes": "4", "node_rank": "2"})
    assert (result, str(command)) == ("missing", "triage diagnose OTHER_HOST")
    assert detail == "the other hosts: the run has 4, this is number 2"


def test_the_engine_s_processes() -> None:
    ((result, detail, _),) = looked("worker-log", OTHER, TEARDOWN)
    assert (result, detail) == ("pass", "the engine's processes: TP3 KeyError: 'a'")
    ((result, _, command),) = looked("worker-log", TEARDOWN, deployment=replace(STORY, engine="vllm"))
    assert result == "missing"
    assert "grep -nE 'EngineCore|Worker|Traceback'" in command
    ((_, _, command),) = looked("worker-log", deployment=Deployment("log"), evidence=LOG)
    assert command == "cat log | grep -nE Traceback | head -40"


def test_the_lines_before() -> None:
    ((result, detail, _),) = looked("earlier-lines", OTHER, TEARDOWN)
    assert (result, detail) == ("pass", "earlier in the log: TP3 KeyError: 'a'")
    ((result, _, command),) = looked("earlier-lines", TEARDOWN)
    assert (result, command) == ("missing", "journalctl -u kimi.service -b -o cat --no-pager | less")


def test_a_diagnosis_has_what_was_found_and_its_outcome_is_that_of_its_own_probes() -> None:
    waits = rule(role="consequence", conclusive=True, cause_in=["kernel-log", "other-ranks"])
    (found,) = diagnose(incident(fault()), Deployment("x"), Answers(kind="log"), Tree(), [waits], {})
    assert found.outcome == "confirmed"
    assert [finding.result for finding in found.findings] == ["pass", "missing", "pass"]
    assert found.findings[1].command


def test_every_shipped_consequence_says_where() -> None:
    for each in load_rules():
        assert bool(each.cause_in) == (each.role == "consequence"), each.id
