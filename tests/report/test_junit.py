"""JUnit of documents: what failed is a failure, what was left out is skipped, the rest passes."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from tests.report.test_page import bench, fleet, links, renamed, rollout, run, verification
from tests.report.test_text import report
from triage.common.errors import UsageError
from triage.report import json as rendered
from triage.report.documents import cleaned
from triage.report.junit import junit_of
from triage.workflows.replay import Difference, Expected, Replayed
from triage.workflows.verdict_diff import Flip

Cases = dict[str, str]


def suites(*documents: dict[str, Any]) -> dict[str, Cases]:
    """By the name of a suite, its cases: the message of the failure, `-` where it was skipped, "" else."""
    found: dict[str, Cases] = {}
    for suite in ElementTree.fromstring(junit_of(documents)):
        cases: Cases = {}
        for case in suite:
            failure, skipped = case.find("failure"), case.find("skipped")
            message = "" if failure is None else failure.get("message", "")
            cases[case.get("name", "")] = "-" if skipped is not None else message
        assert int(suite.get("tests", "")) == len(cases)
        assert int(suite.get("failures", "")) == sum(message not in ("", "-") for message in cases.values())
        assert int(suite.get("skipped", "")) == sum(message == "-" for message in cases.values())
        found[suite.get("name", "")] = cases
    return found


def test_the_steps_of_a_run():
    steps = {"Diagnose": "", "Think": "", "Patch": "", "Verify": ""}
    assert suites(run()) == {"pp8-bringup on gpu01": steps}
    lost = run()
    lost["steps"][3] |= {"status": "failed", "summary": "it died"}
    lost["steps"][1] |= {"status": "skipped", "summary": "does not hold"}
    assert suites(lost)["pp8-bringup on gpu01"] == {**steps, "Think": "-", "Verify": "it died"}


def test_the_hosts_of_a_roll_out_and_the_steps_of_each():
    found = suites(rollout())
    hosts = {"wave 1: gpu01": "", "wave 2: gpu02": "reaching gpu02: no route", "gpu03": "-"}
    assert found["pp8-bringup on 3 hosts"] == hosts
    assert "Verify" in found["pp8-bringup on gpu01"]


def test_the_hosts_of_a_fleet():
    (hosts,) = suites(fleet()).values()
    assert hosts["gpu03"] == ""
    assert hosts["gpu04"] == "reaching gpu04: no route"
    assert hosts["gpu01"] == hosts["gpu02"] != ""


def test_the_checks_of_a_verification():
    found = verification()
    (checks,) = suites(found).values()
    assert checks == {"it starts and answers": "", "1 at once": "", "4 at once": "", "the verdict": ""}
    found["metrics"][1] |= {"failures": {"status 500": 2}}
    found |= {"verdict": "worse", "reason": "slower"}
    (checks,) = suites(found).values()
    assert (checks["4 at once"], checks["the verdict"]) == ("2 x status 500", "worse: slower")


def test_each_rate_is_a_check_of_its_own():
    found = verification()
    found["metrics"] += [{**found["metrics"][0], "concurrency": 256, "rate": rate} for rate in (2.0, 8.0)]
    found["metrics"][-1] |= {"failures": {"timed out": 3}}
    (checks,) = suites(found).values()
    assert (checks["2/s"], checks["8/s"]) == ("", "3 x timed out")


def test_the_layouts_of_a_bench():
    found = bench()
    found["left"] = ["tp2pp4"]
    found["layouts"][1]["verification"]["verdict"] = "worse"  # than another layout, which is no failure
    layouts = suites(found)
    assert layouts["tp8"]["the verdict"] == "failed: it died"
    assert layouts["pp8"]["the verdict"] == ""
    assert {"tp2pp4": "-"} in layouts.values()


def test_an_incident_is_a_failure():
    (found,) = suites(cleaned(rendered.diagnosis(report()))).values()
    assert list(found.values()) == ["pp-rank-assumption, confirmed"]


def test_the_hosts_of_a_check():
    checked = {
        "schema": "triage.hosts-check/1",
        "hosts": [
            {"name": "gpu01", "access": {"user": "root"}, "error": None},
            {"name": "gpu02", "access": None, "error": "reaching gpu02: no route"},
        ],
    }
    assert list(suites(checked).values()) == [{"gpu01": "", "gpu02": "reaching gpu02: no route"}]


def test_the_cases_of_a_replay():
    asked = Expected(category="nccl")
    same, other = Replayed("same", 0.1, (), asked), Replayed("other", 0.1, (), asked)
    wrong = Replayed("wrong", 0.1, (Difference("ranks", "is TP0, expected TP1"),), asked)
    flips = [Flip("other", {"category": ("ulimit", "nccl"), "rule": ("a", None)})]
    (cases,) = suites(rendered.replay([same, other, wrong], flips)).values()
    assert cases == {
        "same": "",
        "other": "category was ulimit, is nccl",
        "wrong": "ranks is TP0, expected TP1",
    }


def test_where_nothing_can_fail_there_are_no_tests():
    with pytest.raises(UsageError, match="nothing in it can fail"):
        junit_of([links()])


@pytest.mark.parametrize("hostile", ["]]><x/>", "<failure/>", "&lol;", "\x00\ud800\ufffe"])
def test_no_text_is_markup(hostile: str):
    documents = [cleaned(renamed(each, hostile)) for each in (run(), bench(), fleet(), rollout())]
    tags = {node.tag for node in ElementTree.fromstring(junit_of(documents).encode()).iter()}
    assert tags <= {"testsuites", "testsuite", "testcase", "failure", "skipped"}
