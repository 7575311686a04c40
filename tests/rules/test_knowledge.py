"""Every case of every rule file is a test, and no rule fires on another rule's cases."""

from __future__ import annotations

import pytest

from triage import pipeline
from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource

KNOWLEDGE = pipeline.load_knowledge()
MATCHES = [(rule, n, case) for rule in KNOWLEDGE.rules for n, case in enumerate(rule.cases.match)]
NEAR = [(rule, n, case) for rule in KNOWLEDGE.rules for n, case in enumerate(rule.cases.near)]


def fired(log):
    """Ids of the rules that propose themselves for the last incident of a log, best first."""
    report = pipeline.diagnose(LogEvidence("case"), KNOWLEDGE, "", LogSource("case", log.encode()))
    return [item.rule for item in report.incidents[-1].diagnoses] if report.incidents else []


def name(value):
    return value.id if hasattr(value, "id") else (str(value) if isinstance(value, int) else "")


@pytest.mark.parametrize(("rule", "number", "case"), MATCHES, ids=name)
def test_matches_its_own_case_and_nothing_else_does(rule, number, case):
    assert fired(case.log) == [rule.id]


@pytest.mark.parametrize(("rule", "number", "case"), NEAR, ids=name)
def test_does_not_match_a_near_miss(rule, number, case):
    assert rule.id not in fired(case.log)


@pytest.mark.parametrize("rule", KNOWLEDGE.rules, ids=name)
def test_its_patches_are_shipped(rule):
    shipped = {patch.id for patch in KNOWLEDGE.patches}
    named = {part.patch for part in (*rule.probes, *rule.remedies) if hasattr(part, "patch")}
    assert named <= shipped
