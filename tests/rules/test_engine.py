"""What a rule's findings amount to, in which order rules stand, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.world import (
    ACCESSOR,
    BACKEND,
    KIMI,
    KIMI_CONFIG,
    PATCHES,
    SITE,
    STORY,
    STORY_FAULT,
    STORY_INCIDENT,
    Answers,
    Tree,
    fault,
    incident,
    rule,
    sglang,
)
from triage.evidence.model import Deployment, Layout
from triage.logs.model import Incident
from triage.patching.model import SourceTree
from triage.rules.diagnosis import CheckResult, Diagnosis, IncidentVerdict
from triage.rules.engine import diagnose, verdict
from triage.rules.load import load_rules
from triage.rules.schema import Rule

# One probe, whose result the fact `n` decides: 2 passes, 1 fails, none is missing.
PROBE = {"check": "argument", "names": ["n"], "at_least": 2, "says": "n is large"}
FACTS = {"pass": "2", "fail": "1"}


def probing(result: str) -> dict[str, Any]:
    return {**PROBE, "names": [result]}


FOUND = incident(fault(), facts=FACTS)
RECEIVER = "model_runner.token_to_kv_pool"
STORY_RULE = next(each for each in load_rules() if each.id == "sglang-pp-value-head-dim")


def diagnosed(rules: Iterable[Rule], of: Incident = FOUND) -> tuple[Diagnosis, ...]:
    return diagnose(of, Deployment("log"), Answers(), Tree(), rules, {})


@pytest.mark.parametrize(
    ("conclusive", "probes", "falsifiers", "outcome"),
    [
        (False, [], [], "unproven"),
        (False, ["pass"], [], "confirmed"),
        (False, ["pass", "pass"], ["pass"], "confirmed"),
        (False, ["pass", "missing"], [], "unproven"),
        (False, ["missing"], [], "unproven"),
        (False, ["pass", "fail"], [], "refuted"),
        (False, ["missing", "fail"], [], "refuted"),
        (False, ["pass"], ["missing"], "confirmed"),  # a falsifier that cannot be read takes nothing away
        (False, ["pass"], ["fail"], "refuted"),
        (False, [], ["pass"], "unproven"),  # not refuted is not yet proven
        (False, [], ["fail"], "refuted"),
        (True, [], [], "confirmed"),
        (True, ["missing"], [], "confirmed"),
        (True, ["fail"], [], "refuted"),
        (True, [], ["fail"], "refuted"),
    ],
)
def test_outcome(conclusive: bool, probes: list[str], falsifiers: list[str], outcome: str) -> None:
    asked = rule(
        conclusive=conclusive,
        probes=[probing(result) for result in probes],
        falsifiers=[probing(result) for result in falsifiers],
    )
    (found,) = diagnosed([asked])
    assert found.outcome == outcome
    assert [finding.result for finding in found.findings] == ["pass", *probes, *falsifiers]
    kinds = ["log", *["probe"] * len(probes), *["falsifier"] * len(falsifiers)]
    assert [finding.kind for finding in found.findings] == kinds


def test_a_diagnosis_carries_what_the_rule_says() -> None:
    told = rule(explanation="because\n", references=["https://a.example/1"], category="nccl", role="benign")
    (found,) = diagnosed([told])
    assert (found.rule, found.title, found.explanation) == (told.id, told.title, "because")
    assert (found.category, found.role, found.references) == ("nccl", "benign", told.references)


def test_the_log_line_says_what_where_and_on_which_ranks() -> None:
    at = fault(message="m" * 400, ranks=("PP3", "PP2"), frames=(SITE, ACCESSOR))
    signature = {"exception": "^ValueError$", "frames": [{"as": "site", "file": "/triton_backend.py"}]}
    (found,) = diagnosed([rule(signature=signature)], incident(at))
    detail = found.findings[0].detail
    assert detail.startswith("ValueError: mmm")
    assert len(detail) < 400
    assert detail.endswith(" on PP2, PP3, triton_backend.py:120 in __init__")


def of(role: str, outcome: str, id: str = "") -> Rule:
    """A rule that matches, with this role and outcome."""
    result = {"confirmed": "pass", "unproven": "missing", "refuted": "fail"}[outcome]
    return rule(id or f"{role}-{outcome}", role=role, probes=[probing(result)])


def test_order() -> None:
    rules = [of(role, outcome) for role in ("benign", "consequence", "cause")
             for outcome in ("refuted", "unproven", "confirmed")]  # fmt: skip
    assert [found.rule for found in diagnosed(rules)] == [
        "cause-confirmed", "cause-unproven",
        "consequence-confirmed", "consequence-unproven",
        "benign-confirmed", "benign-unproven",
        "cause-refuted", "consequence-refuted", "benign-refuted",
    ]  # fmt: skip


def test_among_equals_more_that_passed_comes_first_then_the_name() -> None:
    checked = rule("z-checked", probes=[probing("pass"), probing("missing")])
    rules = [rule("c-unchecked"), checked, rule("b-unchecked")]
    assert [found.rule for found in diagnosed(rules)] == ["z-checked", "b-unchecked", "c-unchecked"]


def test_among_equals_the_one_that_asks_for_more_comes_first() -> None:
    more = rule("z-more", signature={"exception": "^ValueError$", "message": "it is wrong"})
    assert [found.rule for found in diagnosed([rule("a-less"), more])] == ["z-more", "a-less"]


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (("cause", "unproven"), ["other"]),
        (("consequence", "unproven"), ["other"]),
        (("benign", "unproven"), ["other"]),
        (("cause", "refuted"), ["fallback", "other"]),
    ],
)
def test_a_fallback_counts_where_no_other_rule_stands(other: tuple[str, str], shown: list[str]) -> None:
    rules = [rule("fallback", fallback=True), of(*other, id="other")]
    assert [found.rule for found in diagnosed(rules)] == shown


def test_a_phase_is_asked_for() -> None:
    early = rule("early", signature={"exception": "^ValueError$", "phase": "^Load weight begin"})
    assert diagnosed([early]) == ()
    assert diagnosed([early], replace(FOUND, phase="Capture cuda graph begin")) == ()
    assert diagnosed([early], replace(FOUND, phase="Load weight begin")) != ()


KINDS = st.tuples(
    st.sampled_from(["cause", "consequence", "benign"]), st.sampled_from(["confirmed", "unproven", "refuted"])
)


@given(st.lists(KINDS, max_size=8))
def test_a_consequence_is_never_above_a_cause_that_stands(kinds: list[tuple[str, str]]) -> None:
    found = diagnosed(of(role, outcome, f"r{number}") for number, (role, outcome) in enumerate(kinds))
    standing = [item.role for item in found if item.outcome != "refuted"]
    assert standing == sorted(standing, key=["cause", "consequence", "benign"].index)
    assert [item.outcome == "refuted" for item in found] == sorted(
        item.outcome == "refuted" for item in found
    )


def test_every_candidate_is_asked_where_nobody_knows_who_was_first() -> None:
    first, second = fault("KeyError"), fault("ValueError")
    open_question = incident(None, first, second, candidates=(first, second))
    rules = [rule("on-value"), rule("on-key", signature={"exception": "^KeyError$"})]
    assert {found.rule for found in diagnosed(rules, open_question)} == {"on-value", "on-key"}
    decided = incident(first, second, candidates=())
    assert [found.rule for found in diagnosed(rules, decided)] == ["on-key"]


# The verdict.


@pytest.mark.parametrize(
    ("message", "rank", "shown"),
    [
        ("NCCL error: unhandled system error", "TP3", ["space", "generic"]),
        ("NCCL error: unhandled system error", "TP4", ["generic"]),
        ("CUDA out of memory", "TP3", []),
    ],
)
def test_nccl_s_own_words_count_where_the_error_only_passes_them_on(
    message: str, rank: str, shown: list[str]
) -> None:
    words = fault("nccl-warning", "No space left on device", ranks=["TP3"], role="victim")
    first = fault("RuntimeError", message, ranks=[rank])
    rules = (
        rule("space", signature={"message": "No space left"}, conclusive=True),
        rule("advice", signature={"exception": "nccl-warning"}, role="benign"),
        rule("generic", signature={"message": "system error"}),
    )
    of = replace(incident(first), faults=(words, first))
    assert [item.rule for item in diagnosed(rules, of)] == shown


def says(role: str, outcome: str, category: str = "nccl") -> Diagnosis:
    return Diagnosis("r", category, role, outcome, "", "", (), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("diagnoses", "certainty"),
    [
        ([], "unknown"),
        ([says("cause", "refuted")], "unknown"),
        ([says("benign", "confirmed")], "unknown"),
        ([says("cause", "confirmed")], "confirmed"),
        ([says("cause", "unproven")], "likely"),
        ([says("consequence", "confirmed")], "possible"),
        ([says("consequence", "unproven")], "possible"),
        ([says("cause", "confirmed"), says("cause", "unproven", "gpu-oom")], "confirmed"),
        ([says("cause", "unproven"), says("cause", "unproven", "gpu-oom")], "possible"),
        ([says("cause", "unproven"), says("cause", "unproven")], "likely"),  # rivals that agree
        ([says("cause", "unproven"), says("consequence", "confirmed", "gpu-oom")], "likely"),
        ([says("cause", "unproven"), says("benign", "confirmed", "gpu-oom")], "likely"),
        ([says("cause", "unproven"), says("cause", "refuted", "gpu-oom")], "likely"),
        ([says("consequence", "unproven"), says("cause", "refuted", "gpu-oom")], "possible"),
    ],
)
def test_verdict(diagnoses: list[Diagnosis], certainty: str) -> None:
    category = "unknown" if certainty == "unknown" else "nccl"
    found = verdict(incident(fault()), tuple(diagnoses))
    assert (found.category, found.certainty) == (category, certainty)
    open_question = verdict(incident(None, candidates=(fault(),)), tuple(diagnoses))
    assert open_question.category == category
    assert open_question.certainty == ("unknown" if certainty == "unknown" else "possible")


def test_what_speaks_against_a_cause_that_cannot_be_checked_leaves_it_possible() -> None:
    doubted = replace(
        says("cause", "unproven"),
        findings=(CheckResult("probe", "missing", "", against=True),),
        rule="doubted",
    )
    assert verdict(FOUND, (doubted,)).certainty == "possible"
    other = says("cause", "unproven", "gpu-oom")
    assert verdict(FOUND, (other, doubted)) == IncidentVerdict("gpu-oom", "likely")


def test_the_story_s_words_from_two_stages_alone_are_possible_at_most() -> None:
    two = replace(STORY_FAULT, ranks=frozenset({"PP1"}))
    of = incident(two, facts={"engine": "sglang", "pp_size": "2", "kv_pool": "MLATokenToKVPool"})
    log = Deployment("log", engine="sglang", layout=Layout(pp=2))
    found = diagnose(of, log, Answers(kind="log"), Tree(), [STORY_RULE], PATCHES)
    assert [item.outcome for item in found] == ["unproven"]
    assert verdict(of, found) == IncidentVerdict("pp-rank-assumption", "possible")
    first, patch, *_ = found[0].remedies
    assert (first.kind, str(first.command)) == ("action", "triage diagnose HOST")
    assert (patch.kind, str(patch.command)) == (
        "patch",
        "triage patch HOST --id sglang-triton-value-head-dim",
    )


# The story's rule on the sources that it is about.


def story(tree: SourceTree, of: Incident = STORY_INCIDENT) -> Diagnosis:
    evidence = Answers({f"{KIMI}/config.json": KIMI_CONFIG})
    (found,) = diagnose(of, STORY, evidence, tree, [STORY_RULE], PATCHES)
    return found


def test_the_story_is_confirmed_on_the_released_source() -> None:
    found = story(sglang("0.5.11"))
    assert [finding.result for finding in found.findings] == ["pass"] * 7
    assert found.outcome == "confirmed"
    assert verdict(STORY_INCIDENT, (found,)) == IncidentVerdict("pp-rank-assumption", "confirmed")


def test_a_stage_that_the_arithmetic_lets_live_refutes_it() -> None:
    """PP1 reads a wrong layer, but does not raise: another cause."""
    on_pp1 = replace(STORY_FAULT, ranks=frozenset({"PP1"}))
    assert story(sglang("0.5.11"), replace(STORY_INCIDENT, initiator=on_pp1)).outcome == "refuted"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("get_value_buffer(0)", f"get_value_buffer({RECEIVER}.start_layer)", "fixed since this run"),
        ("            self.v_head_dim = ", "\n            self.v_head_dim = ", "changed after this run"),
    ],
)
def test_another_source_than_the_one_that_ran_proves_nothing(old: str, new: str, says: str) -> None:
    found = story(sglang("0.5.11", triton_backend=(old, new)))
    assert found.outcome == "unproven"
    assert any(says in finding.detail for finding in found.findings if finding.result == "missing")


def test_an_upgrade_since_the_run_proves_nothing() -> None:
    assert story(sglang("0.5.18")).outcome == "unproven"


def test_a_source_that_cannot_be_read_leaves_it_open_with_the_command() -> None:
    found = story(Tree(base=sglang("0.5.11"), broken=BACKEND))
    missing = [finding for finding in found.findings if finding.result == "missing"]
    assert found.outcome == "unproven"
    assert {str(finding.command) for finding in missing} == {
        "triage capture gpu01 --unit kimi.service -o CASE"
    }
