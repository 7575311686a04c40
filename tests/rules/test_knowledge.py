"""Every case of every rule file is a test, and no rule fires on another rule's cases."""

from __future__ import annotations

import pytest

from tests.logs import corpus
from triage.common.yaml_files import load_model
from triage.rules.authoring.check import check, rule_cases
from triage.workflows import diagnose, replay

KNOWLEDGE = diagnose.load_knowledge()


@pytest.mark.parametrize("case", list(rule_cases(KNOWLEDGE.rules)), ids=str)
def test_case(case):
    assert check(case, KNOWLEDGE).problem == ""


@pytest.mark.parametrize("rule", KNOWLEDGE.rules, ids=lambda rule: rule.id)
def test_its_patches_are_shipped(rule):
    shipped = {patch.id for patch in KNOWLEDGE.patches}
    named = {part.patch for part in (*rule.probes, *rule.remedies) if hasattr(part, "patch")}
    assert named <= shipped


@pytest.mark.parametrize("case", corpus.cases(), ids=lambda case: case.name)
def test_in_the_corpus_no_cause_of_another_category_stands(case):
    expected = load_model(case / replay.EXPECTED, replay.Expected, "expectation")
    for found in replay.diagnose_case(case, KNOWLEDGE).incidents[-1:]:
        standing = [item for item in found.diagnoses if item.role == "cause" and item.outcome != "refuted"]
        assert {item.category for item in standing} <= {expected.category, *expected.also}
