"""Sizes of a layout, computed for the run that failed: the largest that works on the GPUs there are."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.rules.world import KIMI, Answers, context, fault, of_size, rule
from triage.evidence.catalogue import GpuInventory
from triage.rules.context import Context
from triage.rules.diagnosis import Remedy
from triage.rules.load import load_rules
from triage.rules.remedies.resolve import remedies

HEADS_4_OF_3 = (
    "1 validation error for VllmConfig\n"
    "  Value error, Total number of attention heads (4) must be divisible by tensor parallel size (3)."
)
RULES = {each.id: each for each in load_rules()}


class Host(Answers):
    """A model's config.json, and so many GPUs."""

    def __init__(self, gpus: int = 0, **config: Any) -> None:
        super().__init__({f"{KIMI}/config.json": json.dumps(config)} if config else {})
        if gpus:
            self._known[GpuInventory().key] = f"<log>{'<gpu></gpu>' * gpus}</log>"


def run(host: Host | None = None, message: str = "", engine: str = "sglang", **sizes: int) -> Context:
    world = of_size(**{"pp": 1, **sizes})
    world["deployment"] = replace(world["deployment"], engine=engine)
    world["incident"] = replace(world["incident"], facts={**world["incident"].facts, "engine": engine})
    return context(**world, evidence=host or Host(), fault=fault(message=message))


def advised(at: Context, **spec: Any) -> Remedy:
    (found,) = remedies(rule(remedies=[{"kind": "setting", "id": "x", "summary": "s", **spec}]).remedies, at)
    return found


@pytest.mark.parametrize(
    ("at", "alone", "staged"),
    [
        # two of three GPUs, or a stage for each
        (run(message="4 is not", tp=3), "2", "1 3"),
        (run(Host(8), message="4 is not", tp=3), "4", "4 2"),  # the host has eight
        (run(Host(8), message="4 is not", tp=3, dp=2), "2", "1 3"),  # other replicas may use them
        (run(message="20 is not", tp=8), "4", "4 2"),  # 5 divides the heads, but not a padded vocabulary
        (run(Host(num_attention_heads=20, vocab_size=32000), tp=8), "5", "4 2"),
        (run(Host(num_attention_heads=20, vocab_size=32001), tp=8), "4", "4 2"),
        (run(Host(num_attention_heads=24, intermediate_size=8192, vocab_size=49152), tp=7), "4", "1 7"),
        (run(Host(num_attention_heads=24, num_key_value_heads=6, vocab_size=49152), tp=8), "6", "2 4"),
        (run(Host(num_attention_heads=32, num_key_value_heads=2, vocab_size=151936), tp=6), "4", "2 3"),
        (
            run(
                Host(
                    num_attention_heads=64,
                    moe_intermediate_size=1536,
                    quantization_config={"weight_block_size": [128, 128]},
                ),
                tp=8,
            ),
            "4",
            "4 2",
        ),
        (run(Host(num_attention_heads=64, moe_intermediate_size=1536), tp=3, ep=3), "2", "1 3"),
        (run(message="4 is not", tp=3, pp=2), "2", "2 3"),
    ],
)
def test_the_largest_size_for_the_gpus_there_are(at: Context, alone: str, staged: str) -> None:
    spec = {"computes": "tensor-size", "divides": r"^(\d+) is not"}
    assert advised(at, set="N", **spec).command == alone
    assert advised(at, set="N M", **spec).command == staged


def test_the_rule_of_vllm_on_three_gpus_advises_two() -> None:
    at = run(message=HEADS_4_OF_3, engine="vllm", tp=3)
    (found,) = remedies(RULES["vllm-heads-not-divisible"].remedies, at)
    assert (found.command, found.helps) == ("--tensor-parallel-size 2", True)
    assert "of the sizes for 3 GPUs, 1, 2 divide what the message names 4" in found.proof


def test_more_ranks_than_gpus_are_cut_down_to_those_that_the_message_counts() -> None:
    said = "World size (16) is larger than the number of available GPUs (8) in this node."
    commands = [
        each.command
        for each in remedies(RULES["more-ranks-than-gpus"].remedies, run(message=said, engine="vllm", tp=16))
        if each.id == "layout"
    ]
    assert commands == ["--tensor-parallel-size 8 --pipeline-parallel-size 1"]


@pytest.mark.parametrize(
    ("at", "computes", "number"),
    [
        (run(Host(n_routed_experts=160), tp=12, ep=12), "expert-size", "4"),
        (run(Host(n_routed_experts=256), tp=12, ep=12), "expert-size", "4"),
        (run(Host(num_experts=60, num_attention_heads=16), engine="vllm", tp=8), "expert-size", "4"),
        (run(Host(num_experts=60, num_attention_heads=16), engine="vllm", tp=8, dp=3), "expert-size", "4"),
        (run(Host(num_experts=60), engine="vllm", tp=8, dp=7), "expert-size", "N"),
        (run(tp=12, ep=12), "expert-size", "N"),
        (run(Host(n_routed_experts=160), tp=12, ep=12), "redundant-experts", "8"),
        (run(Host(n_routed_experts=160), tp=8, ep=8), "redundant-experts", "0"),
        (run(tp=8, dp=3), "data-parallel-size", "2"),
        (run(tp=8, dp=16), "data-parallel-size", "8"),
        (run(tp=8), "data-parallel-size", "8"),  # one group was asked for, and there must be two
        (run(tp=1), "data-parallel-size", "N"),
        (run(Host(num_attention_heads=40), tp=4), "larger-size", "8"),
        (run(Host(num_attention_heads=40, vocab_size=64000), tp=4), "larger-size", "5"),
        (run(tp=4), "larger-size", "N"),
    ],
)
def test_other_sizes(at: Context, computes: str, number: str) -> None:
    assert advised(at, set="N", computes=computes).command == number


def test_redundant_experts_that_the_run_asked_for_are_kept() -> None:
    at = run(Host(n_routed_experts=256), tp=8, ep=8)
    at = replace(
        at, incident=replace(at.incident, facts={**at.incident.facts, "ep_num_redundant_experts": "12"})
    )
    assert advised(at, set="N", computes="redundant-experts").command == "16"


def test_the_size_of_the_run_is_never_the_advice() -> None:
    assert advised(run(Host(num_attention_heads=64), tp=8), set="N", computes="tensor-size").command == "4"
