"""Every case of every rule file is a test, and no rule fires on another rule's cases."""

from __future__ import annotations

import pytest

from triage import pipeline
from triage.rules.check import check, rule_cases

KNOWLEDGE = pipeline.load_knowledge()


@pytest.mark.parametrize("case", list(rule_cases(KNOWLEDGE.rules)), ids=str)
def test_case(case):
    assert check(case, KNOWLEDGE).problem == ""


@pytest.mark.parametrize("rule", KNOWLEDGE.rules, ids=lambda rule: rule.id)
def test_its_patches_are_shipped(rule):
    shipped = {patch.id for patch in KNOWLEDGE.patches}
    named = {part.patch for part in (*rule.probes, *rule.remedies) if hasattr(part, "patch")}
    assert named <= shipped
