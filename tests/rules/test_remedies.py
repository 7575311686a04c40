"""Remedies are computed for the deployment: the patch's state, the layouts' arithmetic, commands to paste."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.rules.world import (
    BACKEND,
    KIMI,
    KIMI_CONFIG,
    STORY,
    STORY_INCIDENT,
    Answers,
    Tree,
    context,
    fault,
    incident,
    of_size,
    rule,
    sglang,
)
from triage.evidence.model import Deployment, Layout
from triage.rules.context import Context
from triage.rules.diagnosis import Remedy
from triage.rules.remedies import remedies

PATCH = "sglang-triton-value-head-dim"


def offered(at: Context, **spec: Any) -> tuple[Remedy, ...]:
    return remedies(rule(remedies=[spec]).remedies, at)


def patched(**changes: Any) -> Remedy:
    at = context(**{"tree": sglang("0.5.11"), **changes})
    (found,) = offered(
        at, kind="patch", patch=PATCH, summary="mend it", cost="a restart", proof="merged upstream"
    )
    return found


def test_a_patch_that_fits() -> None:
    found = patched()
    assert (found.kind, found.id, found.helps, found.cost) == ("patch", PATCH, True, "a restart")
    assert found.command == f"triage patch gpu01 --unit kimi.service --id {PATCH} --apply"
    assert found.proof.startswith("merged upstream; applicable to the source that was read: ")


def test_a_patch_that_does_not_fit_comes_without_a_command() -> None:
    sliding = replace(STORY_INCIDENT, facts={"kv_pool": "SWAKVPool"})
    found = patched(incident=sliding)
    assert (found.kind, found.helps, found.command) == ("patch", False, "")
    assert found.proof.startswith("blocked: ")


def test_a_source_that_has_the_fix_needs_a_restart() -> None:
    found = patched(tree=sglang("0.5.18"))
    assert (found.kind, found.id, found.helps) == ("action", "restart", True)
    assert found.command == "triage verify gpu01 --unit kimi.service"


@pytest.mark.parametrize(
    "changes",
    [
        {"tree": Tree()},
        {"tree": Tree(base=sglang("0.5.11"), broken=BACKEND)},
        {"patches": {}},
        {"evidence": Answers(kind="log")},
    ],
)
def test_a_patch_of_which_nothing_is_known(changes: dict[str, Any]) -> None:
    found = patched(**changes)
    assert (found.kind, found.helps, found.proof) == ("patch", None, "merged upstream")
    assert found.command.startswith("triage patch ")


def test_commands_name_the_interpreter_that_serves_and_quote_what_a_host_named() -> None:
    upgrade = {"kind": "upgrade", "distribution": "sglang", "version": ">=0.5.18", "summary": "upgrade"}
    (found,) = offered(context(), **upgrade)
    assert found.command == "/opt/venv/bin/python -m pip install --upgrade 'sglang>=0.5.18'"
    (found,) = offered(context(deployment=Deployment("log")), **upgrade)
    assert found.command == "python -m pip install --upgrade 'sglang>=0.5.18'"
    odd = replace(STORY, python="/opt/my env/python;reboot", unit="$(reboot).service")
    (found,) = offered(context(deployment=odd), **upgrade)
    assert found.command.startswith("'/opt/my env/python;reboot' -m pip")
    assert "--unit '$(reboot).service'" in patched(deployment=odd).command


def test_settings_and_actions_are_as_the_rule_has_them() -> None:
    keys = {"id": "one", "summary": "s", "cost": "c", "proof": "p"}
    (setting,) = offered(context(), kind="setting", set="--flag", **keys)
    assert setting == Remedy("setting", "one", "s", "--flag", "c", "p", None)
    (action,) = offered(context(), kind="action", command="ss -ltnp", **keys)
    assert action == Remedy("action", "one", "s", "ss -ltnp", "c", "p", None)


def test_the_order_of_the_rule_is_kept() -> None:
    action = {"kind": "action", "summary": "s"}
    specs = [{**action, "id": "b"}, {"kind": "layouts"}, {**action, "id": "a"}]
    at = context(tree=sglang("0.5.11"))
    found = remedies(rule(remedies=specs).remedies, at)
    assert [found[0].id, found[-1].id] == ["b", "a"]
    assert len(found) == 5


# Layouts: 61 layers, 64 heads, 8 GPUs.


def layouts(**changes: Any) -> dict[str, Remedy]:
    found = offered(context(**{"tree": sglang("0.5.11"), **changes}), kind="layouts", layer=0)
    assert {remedy.kind for remedy in found} <= {"setting"}
    return {remedy.command: remedy for remedy in found}


def test_layouts_replace_that_of_the_run_where_the_unit_was_changed_since() -> None:
    edited = replace(STORY, layout=Layout(pp=4), arguments={"pp-size": "4"})
    assert list(layouts(deployment=edited)) == list(layouts())


def test_other_layouts_of_the_same_gpus() -> None:
    """The starts are those of get_pp_indices: 15 a stage and the last 16; 30 and 31."""
    found = layouts()
    assert list(found) == [
        "--tp-size 8 --pp-size 1", "--tp-size 4 --pp-size 2", "--tp-size 2 --pp-size 4",
    ]  # fmt: skip
    whole, halves, quarters = found.values()
    assert (whole.helps, whole.summary) == (True, "TP8 x PP1: no stage asks for a layer of another")
    assert halves.helps is True
    assert halves.summary == "TP4 x PP2: no stage raises; PP1 silently reads another layer's buffer"
    assert quarters.helps is False
    assert quarters.summary == "TP2 x PP4: does not help: PP2, PP3 would raise the same error"
    assert all("not run" in remedy.proof for remedy in found.values())


def test_a_partition_of_the_user_is_of_the_deployed_size_only() -> None:
    partition = {"SGLANG_PP_LAYER_PARTITION": "20,6,5,6,6,6,6,6"}
    assert list(layouts(deployment=replace(STORY, environment=partition))) == list(layouts())


def test_heads_must_divide() -> None:
    config = json.dumps({"num_hidden_layers": 61, "num_attention_heads": 20})
    found = layouts(evidence=Answers({f"{KIMI}/config.json": config}))
    assert list(found) == ["--tp-size 4 --pp-size 2", "--tp-size 2 --pp-size 4"]


def test_data_parallelism_is_kept() -> None:
    assert [remedy.id for remedy in layouts(**of_size(tp=2, pp=2, dp=2)).values()] == [
        "layout-tp4-dp2", "layout-pp4-dp2",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"evidence": Answers()},  # no config.json
        of_size(pp=1),  # one GPU
        of_size(pp=67),  # a prime: more stages than layers, or 67 into 64
    ],
)
def test_no_layout_is_guessed(changes: dict[str, Any]) -> None:
    assert layouts(**changes) == {}


def test_a_layout_whose_split_is_not_known_is_not_offered() -> None:
    """62 layers over 4 stages differ by release, over 2 they do not."""
    config = json.dumps({"num_hidden_layers": 62, "num_attention_heads": 64})
    found = layouts(tree=Tree(), evidence=Answers({f"{KIMI}/config.json": config}))
    assert list(found) == ["--tp-size 8 --pp-size 1", "--tp-size 4 --pp-size 2"]


def test_absurd_sizes_from_a_log_cost_nothing() -> None:
    facts = {"engine": "sglang", "tp_size": "999999", "pp_size": "999999"}
    evidence = Answers({f"{KIMI}/config.json": KIMI_CONFIG})
    hostile = {"deployment": Deployment("log", model=KIMI), "incident": incident(fault(), facts=facts)}
    assert layouts(evidence=evidence, **hostile) == {}
