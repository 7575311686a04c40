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
from triage.evidence.catalogue import GpuInventory, ListDirectory
from triage.evidence.model import Deployment, Layout
from triage.rules.context import Context
from triage.rules.diagnosis import Remedy
from triage.rules.remedies.resolve import remedies

PATCH = "sglang-triton-value-head-dim"


def offered(at: Context, **spec: Any) -> tuple[Remedy, ...]:
    return remedies(rule(remedies=[spec]).remedies, at)


def patched(**changes: Any) -> Remedy:
    at = context(**{"tree": sglang("0.5.11"), **changes})
    (found,) = offered(
        at, kind="patch", patch=PATCH, summary="fix it", cost="a restart", proof="merged upstream"
    )
    return found


def test_a_patch_that_fits() -> None:
    found = patched()
    assert (found.kind, found.id, found.helps, found.cost) == ("patch", PATCH, True, "a restart")
    assert str(found.command) == f"triage patch gpu01 --unit kimi.service --id {PATCH} --apply"
    assert found.proof.startswith("merged upstream; applicable to the source that was read: ")


def test_a_patch_that_does_not_fit_comes_without_a_command() -> None:
    sliding = replace(STORY_INCIDENT, facts={"kv_pool": "SWAKVPool"})
    found = patched(incident=sliding)
    assert (found.kind, found.helps, found.command) == ("patch", False, "")
    assert found.proof.startswith("blocked: ")


def test_a_source_that_has_the_fix_needs_a_restart() -> None:
    found = patched(tree=sglang("0.5.18"))
    assert (found.kind, found.id, found.helps) == ("action", "restart", True)
    assert str(found.command) == "triage verify gpu01 --unit kimi.service"


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
    assert str(found.command).startswith("triage patch ")


def test_commands_name_the_interpreter_that_serves_and_quote_what_a_host_named() -> None:
    upgrade = {"kind": "upgrade", "distribution": "sglang", "version": ">=0.5.18", "summary": "upgrade"}
    (found,) = offered(context(), **upgrade)
    assert found.command == "/opt/venv/bin/python -m pip install --upgrade 'sglang>=0.5.18'"
    (found,) = offered(context(deployment=Deployment("log")), **upgrade)
    assert found.command == "python -m pip install --upgrade 'sglang>=0.5.18'"
    odd = replace(STORY, python="/opt/my env/python;reboot", unit="$(reboot).service")
    (found,) = offered(context(deployment=odd), **upgrade)
    assert found.command.startswith("'/opt/my env/python;reboot' -m pip")
    assert "--unit '$(reboot).service'" in str(patched(deployment=odd).command)


def test_settings_and_actions_are_as_the_rule_has_them() -> None:
    keys = {"id": "one", "summary": "s", "cost": "c", "proof": "p"}
    (setting,) = offered(context(), kind="setting", set="--flag", **keys)
    assert setting == Remedy("setting", "one", "s", "--flag", "c", "p", None)
    (action,) = offered(context(), kind="action", command="ss -ltnp", **keys)
    assert action == Remedy("action", "one", "s", "ss -ltnp", "c", "p", None)


# Numbers.


def setting(at: Context, **spec: Any) -> Remedy | None:
    keys = {"id": "one", "summary": "s", "set": "--flag N"}
    found = offered(at, kind="setting", **{**keys, **spec})
    return found[0] if found else None


BOTH = {"sglang": "--tp-size N --pp-size M", "vllm": "--tensor-parallel-size N"}


@pytest.mark.parametrize(
    ("deployment", "command"),
    [
        (STORY, "--tp-size N --pp-size M"),
        (replace(STORY, engine="vllm"), "--tensor-parallel-size N"),
    ],
)
def test_a_setting_is_spelled_as_the_engine_at_hand_does(deployment: Deployment, command: str) -> None:
    found = setting(context(deployment=deployment), set=BOTH)
    assert found is not None
    assert found.command == command


def test_a_setting_of_an_unknown_engine_names_both_and_one_that_it_lacks_is_not_offered() -> None:
    unknown = context(deployment=Deployment("log"), incident=incident(fault()))
    found = setting(unknown, set=BOTH)
    assert found is not None
    assert found.command == "--tp-size N --pp-size M (SGLang), --tensor-parallel-size N (vLLM)"
    assert setting(context(), set={"vllm": "--enforce-eager"}) is None


OOM = (
    "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 94.97 GiB "
    "of which 902.56 MiB is free."
)


def failed(message: str, **facts: str) -> Context:
    logged = {**STORY_INCIDENT.facts, **facts}
    return context(fault=fault(message=message), incident=replace(STORY_INCIDENT, facts=logged))


@pytest.mark.parametrize(
    ("at", "spec", "command", "helps"),
    [
        # 0.9 - (1.5 GiB - 902.56 MiB) / 94.97 GiB = 0.8935
        (failed(OOM, mem_fraction_static="0.9"), {"computes": "share-for-allocation"}, "--flag 0.89", True),
        (
            failed(OOM, mem_fraction_static="0.9", weights_gib="88.1"),
            {"computes": "share-for-allocation"}, "--flag 0.89", False,
        ),
        (failed(OOM), {"computes": "share-for-allocation"}, "--flag N", None),
        (failed(OOM), {"computes": "share-for-allocation", "otherwise": "0.8"}, "--flag 0.8", None),
        (
            failed(OOM.replace("1.50 GiB", "2.00 MiB"), mem_fraction_static="0.9"),
            {"computes": "share-for-allocation"}, "--flag N", None,
        ),  # there was room, but not in one piece
        (failed("device (10.2/79.1 GiB) on startup"), {"computes": "share-of-free"}, "--flag 0.12", None),
        (failed("device (99.2/79.1 GiB) on startup"), {"computes": "share-of-free"}, "--flag N", None),
        (
            failed("Not enough memory", free_before_load_gib="78.70", free_after_load_gib="6.50"),
            {"computes": "share-for-cache"}, "--flag 0.92", True,
        ),
        (
            failed("Not enough memory", free_before_load_gib="78.70", free_after_load_gib="0.50"),
            {"computes": "share-for-cache"}, "--flag 1.00", False,
        ),
        (
            failed("above 0.86 (minimum viable = 1 - available/pre = 0.8531)."),
            {"computes": "share-for-cache"}, "--flag 0.86", True,
        ),
        (failed("Not enough memory"), {"computes": "share-for-cache"}, "--flag N", None),
        (failed("maximum model length is 79856."), {"named": r"length is (\d+)"}, "--flag 79856", None),
        (failed("something else"), {"named": r"length is (\d+)"}, "--flag N", None),
    ],
)  # fmt: skip
def test_numbers_of_memory(at: Context, spec: dict[str, Any], command: str, helps: bool | None) -> None:
    found = setting(at, **spec)
    assert found is not None
    assert (found.command, found.helps) == (command, helps)
    assert bool(found.proof) == (command not in ("--flag N", "--flag 0.8"))


def sized(tp: int, pp: int = 1, message: str = "", **config: int) -> Context:
    files = {f"{KIMI}/config.json": json.dumps(config)} if config else {}
    return context(**of_size(tp=tp, pp=pp), evidence=Answers(files), fault=fault(message=message))


@pytest.mark.parametrize(
    ("at", "command", "helps"),
    [
        (sized(8, num_attention_heads=20), "--tp-size 4 --pp-size 2", True),
        (sized(6, num_attention_heads=64, num_key_value_heads=8), "--tp-size 2 --pp-size 3", True),
        (sized(8, message="6150 is not divisible by 8"), "--tp-size 2 --pp-size 4", True),
        (sized(8, message="615 is not divisible by", num_attention_heads=8), "--tp-size 1 --pp-size 8", True),
        (sized(8), "--tp-size N --pp-size M", None),
        (sized(1, num_attention_heads=20), "--tp-size N --pp-size M", None),
        (sized(999_999, num_attention_heads=20), "--tp-size N --pp-size M", None),
    ],
)  # fmt: skip
def test_sizes_that_divide(at: Context, command: str, helps: bool | None) -> None:
    spec = {"computes": "tensor-size", "divides": r"^(\d+) is not", "keys": ["num_attention_heads"]}
    spec["keys"].append("num_key_value_heads")
    found = setting(at, set=BOTH, **spec)
    assert found is not None
    assert (found.command, found.helps) == (command, helps)


GATE = (
    "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128."
)
MARLIN = "Weight input_size_per_partition = 704 is not divisible by min_thread_k = 128. Consider reducing"


@pytest.mark.parametrize(
    ("at", "computes", "command"),
    [
        (sized(8, message=GATE), "block-size", "--tp-size 4 --pp-size 2"),  # 1536 are 12 blocks
        (sized(8, pp=2, message=GATE), "block-size", "--tp-size 4 --pp-size 4"),
        (sized(8, message=GATE), "expert-block-size", "--tp-size 2 --pp-size M"),
        (sized(4, message=MARLIN), "block-size", "--tp-size 2 --pp-size 2"),  # 2816 are 22 blocks
        (sized(2, message=MARLIN.replace("704", "100")), "block-size", "--tp-size N --pp-size M"),
        (sized(1, message=GATE), "block-size", "--tp-size N --pp-size M"),
        (sized(8, message="7 is not divisible by 2"), "block-size", "--tp-size N --pp-size M"),
        (sized(8, message=GATE.replace("128", "0")), "block-size", "--tp-size N --pp-size M"),
    ],
)
def test_whole_quantization_blocks(at: Context, computes: str, command: str) -> None:
    found = setting(at, set=BOTH, computes=computes)
    assert found is not None
    assert found.command == command
    assert found.proof.startswith("computed: ") == ("--tp-size N" not in command)


def test_all_gpus_in_one_stage() -> None:
    eight = setting(context(), set="--pp-size 1 --tp-size GPUS", computes="one-stage")
    assert eight is not None
    assert (eight.command, eight.helps) == ("--pp-size 1 --tp-size 8", True)
    six = setting(context(**of_size(pp=6)), set="--pp-size 1 --tp-size GPUS", computes="one-stage")
    assert six is not None
    assert (six.helps, "64 attention heads over 6 GPUs" in six.proof) == (False, True)


class Files(Answers):
    """A model's directory and the host's GPUs."""

    def __init__(self, *sizes: int, gpu: int | None = None) -> None:
        super().__init__()
        listing = "".join(f'["f", {size << 30}, "model-{n}.safetensors"]\n' for n, size in enumerate(sizes))
        self._known[ListDirectory(KIMI).key] = listing + '["f", 99, "config.json"]\n'
        if gpu is not None:
            total = f"<fb_memory_usage><total>{gpu} MiB</total></fb_memory_usage>"
            self._known[GpuInventory().key] = f"<log><gpu>{total}</gpu><gpu>{total}</gpu></log>"


@pytest.mark.parametrize(
    ("files", "message", "command"),
    [
        (Files(400, 195), OOM.replace("94.97", "80.00"), "--tp-size 16 or --pp-size 9"),
        (Files(400, 195, gpu=81_920), "", "--tp-size 16 or --pp-size 9"),
        (Files(400, 195), OOM, "--tp-size N or --pp-size M"),  # 8 of 94.97 GiB hold 595
        (Files(gpu=81_920), "", "--tp-size N or --pp-size M"),
        (Files(400, 195), "", "--tp-size N or --pp-size M"),
    ],
)
def test_gpus_that_hold_the_weights(files: Files, message: str, command: str) -> None:
    at = context(evidence=files, fault=fault(message=message))
    found = setting(at, set="--tp-size N or --pp-size M", computes="gpus-for-weights")
    assert found is not None
    assert found.command == command
    assert ("595.00 GiB of weights over 8 GPUs are 74.38 GiB each" in found.proof) == (
        "--pp-size 9" in command
    )


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
