"""Each part of an expectation is compared; what is left out is not; a capture's own expectation holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.rules.world import fault, frame, incident
from triage.common.errors import ExitCode, UnreachableError
from triage.evidence.model import Deployment, Origin
from triage.logs.model import Fault, Incident, Position
from triage.rules.diagnosis import Diagnosis, IncidentVerdict
from triage.workflows.diagnose import DiagnosedIncident, Knowledge, Report
from triage.workflows.replay import (
    Expected,
    compare,
    diagnose_case,
    expectation,
    find_cases,
    replay,
)

CORPUS = Path(__file__).parents[1] / "corpus"
NO_KNOWLEDGE = Knowledge((), ())
FIRST = fault(
    "IndexError",
    "list index out of range",
    position=Position("node0.log", 812),
    frames=(frame("/v/triton_backend.py", 120, "__init__"),),
    ranks=("PP2", "PP3"),
)
VICTIM = fault("SIGKILL", "", kind="signal", role="victim", position=Position("node0.log", 820))
INCIDENT = incident(
    FIRST, VICTIM, facts={"pp_size": "8"}, silent_ranks=("PP0", "PP1"), phase="Memory pool end", count=3
)
RULE = Diagnosis("a-rule", "pp-rank-assumption", "cause", "confirmed", "", "", (), ())
VERDICT = IncidentVerdict("pp-rank-assumption", "confirmed")


def report(
    *incidents: Incident, verdict: IncidentVerdict = VERDICT, rules: tuple[Diagnosis, ...] = (RULE,)
) -> Report:
    found = tuple(DiagnosedIncident(each, rules, verdict) for each in incidents)
    return Report(Origin("log", "x"), Deployment("x"), found)


def parts(expected: dict[str, Any], of: Report) -> list[str]:
    return [difference.part for difference in compare(Expected(**expected), of)]


FOUND = report(INCIDENT)
RIGHT: dict[str, Any] = {
    "category": "pp-rank-assumption",
    "certainty": "confirmed",
    "rule": "a-rule",
    "initiator": "IndexError: list index out of range",
    "initiator_line": 812,
    "source": "0.log",
    "type": "IndexError",
    "frame": "triton_backend.py:__init__",
    "ranks": ("PP3", "PP2"),
    "silent_ranks": ("PP1", "PP0"),
    "roles": {812: "initiator", 820: "victim"},
    "phase": "Memory pool end",
    "facts": {"pp_size": "8"},
    "incidents": 1,
    "count": 3,
}


def test_all_of_it_is_right() -> None:
    assert parts(RIGHT, FOUND) == []
    assert parts({}, FOUND) == []


@pytest.mark.parametrize(
    ("key", "wrong", "part"),
    [
        ("category", "nccl", "category"),
        ("certainty", "likely", "certainty"),
        ("rule", "another-rule", "rule"),
        ("initiator", "KeyError: 0", "initiator"),
        ("initiator_line", 811, "initiator"),
        ("source", "1.log", "initiator"),
        ("type", "KeyError", "initiator"),
        ("frame", "triton_backend.py:forward", "frame"),
        ("ranks", ("PP3",), "ranks"),
        ("ranks", (), "ranks"),
        ("silent_ranks", (), "silent ranks"),
        ("roles", {820: "teardown"}, "roles"),
        ("phase", "Load weight end", "phase"),
        ("facts", {"pp_size": "2"}, "facts"),
        ("facts", {"tp_size": "1"}, "facts"),
        ("incidents", 2, "incident"),
        ("count", 1, "count"),
        ("undecided", True, "initiator"),
    ],
)
def test_one_part_that_differs(key: str, wrong: object, part: str) -> None:
    expected = {} if key == "undecided" else RIGHT
    assert parts({**expected, key: wrong}, FOUND) == [part]


def test_another_category_can_be_as_right() -> None:
    assert parts({"category": "nccl", "also": ("gpu-oom", "pp-rank-assumption")}, FOUND) == []
    assert parts({"category": "nccl", "also": ("gpu-oom",)}, FOUND) == ["category"]


def test_nothing_is_to_be_found() -> None:
    assert parts({"category": "none"}, report()) == []
    assert parts({"category": "none"}, FOUND) == ["incident"]
    assert parts(RIGHT, report()) == ["incident"]


def test_the_last_incident_counts() -> None:
    other = replace(INCIDENT, initiator=fault("KeyError", "0"))
    assert parts({**RIGHT, "incidents": 2}, report(other, INCIDENT)) == []
    assert parts({"type": "IndexError"}, report(INCIDENT, other)) == ["initiator"]


def test_no_rule_is_none() -> None:
    unexplained = report(INCIDENT, verdict=IncidentVerdict("unknown", "unknown"), rules=())
    assert parts({"category": "unknown", "rule": "none"}, unexplained) == []
    assert parts({"rule": "a-rule"}, unexplained) == ["rule"]


@pytest.mark.parametrize(
    ("label", "type", "message", "names"),
    [
        ("IndexError: list index out of range", "IndexError", "list index out of range", True),
        ("list index", "IndexError", "list index out of range", True),  # a part
        ("[2026-05-12 14:03:59 PP3] KeyError: 0", "KeyError", "0", True),  # a whole line with its prefix
        ("ERROR: [Errno 98] address already", "port-in-use", "[Errno 98] address already", True),
        ("RuntimeError: CUDA error: an illegal memory access was enc", "RuntimeError",
         "CUDA error: an illegal memory access was encountered", True),  # cut at its end
        ("ValueError: head", "ValueError", "head\nand a second line", True),
        ("[14:03:50] IndexError: list index out of range", "KeyError", "0", False),  # a 0 is everywhere
        ("IndexError: list index out of range", "IndexError", "tuple index out of range", False),
        ("KeyError: 1", "KeyError", "0", False),
        ("SIGKILL", "SIGKILL", "", True),
    ],
)  # fmt: skip
def test_a_label_names_a_fault(label: str, type: str, message: str, names: bool) -> None:
    found = report(incident(fault(type, message)))
    assert parts({"initiator": label}, found) == ([] if names else ["initiator"])


def undecided(*candidates: Fault) -> Report:
    return report(incident(None, *candidates, candidates=candidates))


@pytest.mark.parametrize(
    ("expected", "differs"),
    [
        ({"undecided": True}, False),
        ({}, False),
        ({"source": "0.log"}, False),
        ({"initiator": "IndexError"}, True),
        ({"initiator_line": 812}, True),
        ({"type": "IndexError"}, True),
        ({"frame": "a.py:f"}, True),
        ({"ranks": ("PP3",)}, True),
    ],
)
def test_the_log_does_not_decide(expected: dict[str, Any], differs: bool) -> None:
    assert parts(expected, undecided(FIRST, VICTIM)) == (["initiator"] if differs else [])


@pytest.mark.parametrize(
    "found", [FOUND, report(), undecided(FIRST, VICTIM), report(incident(fault("Xid", "")))]
)
def test_what_is_captured_is_what_is_expected(found: Report) -> None:
    assert list(compare(expectation(found), found)) == []
    different = report(
        replace(INCIDENT, initiator=replace(VICTIM, ranks=frozenset({"PP9"})), silent_ranks=())
    )
    assert list(compare(expectation(found), different))


# Cases on disk.


def write(case: Path, log: str, expected: str) -> Path:
    case.mkdir(parents=True)
    (case / "log").write_text(log)
    (case / "expected.yaml").write_text(expected)
    return case


CRASH = "[2026-05-12 14:03:59] OSError: [Errno 98] Address already in use\n"


def test_cases_are_found_below_directories_once_and_in_order(tmp_path: Path) -> None:
    second = write(tmp_path / "b" / "deep", CRASH, "")
    first = write(tmp_path / "a", CRASH, "")
    assert find_cases([tmp_path, first]) == (first, second)
    assert find_cases([second, tmp_path]) == (second, first)


@pytest.mark.parametrize("name", ["empty", "missing", "file"])
def test_no_case_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    write(tmp_path / "a", CRASH, "")
    with pytest.raises(UnreachableError, match=name) as caught:
        find_cases([tmp_path / "a", tmp_path / name])
    assert caught.value.exit_code is ExitCode.UNREACHABLE


def test_a_case_that_cannot_be_read_does_not_end_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a", CRASH, "colour: red")
    write(tmp_path / "b", CRASH, "category: none")
    write(tmp_path / "c", CRASH, "type: OSError")
    found = list(replay(find_cases([tmp_path]), NO_KNOWLEDGE))
    assert [Path(each.name).name for each in found] == ["a", "b", "c"]
    assert [[difference.part for difference in each.differences] for each in found] == [
        ["error"], ["incident"], [],
    ]  # fmt: skip
    assert "colour" in found[0].differences[0].text
    assert all(each.seconds > 0 for each in found)


def test_what_else_lies_in_a_case_is_no_log(tmp_path: Path) -> None:
    case = write(tmp_path / "a", CRASH, "")
    for name in ("README.md", "junit.xml", ".hidden"):
        (case / name).write_text("RuntimeError: not of this run\n")
    (case / "directory").mkdir()
    (found,) = diagnose_case(case, NO_KNOWLEDGE).incidents
    assert [each.position.source for each in found.incident.faults] == [str(case / "log")]


def test_several_logs_are_one_run() -> None:
    (found,) = diagnose_case(CORPUS / "two-nodes", NO_KNOWLEDGE).incidents
    sources = {Path(each.position.source).name for each in found.incident.faults}
    assert sources == {"node0.log", "node1.log"}
