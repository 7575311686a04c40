"""What a log says of the deployment: SGLang's banner in both forms, vLLM's, and the lines of the start."""
# ruff: noqa: E501  (log lines stay whole)

from __future__ import annotations

import pytest

from triage.logs.facts import facts_of, merge, phase_of


def facts(*texts: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        for name, value in facts_of(text):
            merge(found, name, value)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "server_args=ServerArgs(model_path='/m/Kimi', nccl_port=None, port=30000, tp_size=2, pp_size=8, attention_backend='triton')",
        "server_args={'model_path': '/m/Kimi', 'nccl_port': None, 'port': 30000, 'tp_size': 2, 'pp_size': 8, 'attention_backend': 'triton'}",
    ],
)
def test_sglang_says_its_arguments(text: str) -> None:
    assert facts(text) == {
        "engine": "sglang",
        "model_path": "/m/Kimi",
        "port": "30000",
        "tp_size": "2",
        "pp_size": "8",
        "attention_backend": "triton",
    }


def test_vllm_says_its_arguments_and_version() -> None:
    found = facts(
        "non-default args: {'model_tag': '/m/x', 'port': 8000, 'model': '/m/x', 'served_model_name': ['tiny'], 'pipeline_parallel_size': 2}",
        "Initializing a V1 LLM engine (v0.32.0) with config: model='/m/x', tensor_parallel_size=4, pipeline_parallel_size=2, kv_cache_dtype=auto",
        "Resolved architecture: LlamaForCausalLM",
    )
    assert found == {
        "engine": "vllm",
        "port": "8000",
        "model_path": "/m/x",
        "served_model_name": "tiny",
        "pp_size": "2",
        "tp_size": "4",
        "kv_cache_dtype": "auto",
        "version": "0.32.0",
        "model_class": "LlamaForCausalLM",
    }


@pytest.mark.parametrize(
    ("texts", "pool"),
    [
        (["KV Cache is allocated. #tokens: 8192, K size: 0.00 GB, V size: 0.00 GB"], "MHATokenToKVPool"),
        (["KV Cache is allocated. #tokens: 298816, KV size: 5.12 GB"], "MLATokenToKVPool"),
        (
            ["KV Cache is allocated. #tokens: 1, K size: 0 GB, V size: 0 GB", "SWAKVPool mem usage: 2.83 GB"],
            "SWAKVPool",
        ),
    ],
)
def test_the_pool_that_serves_the_model(texts: list[str], pool: str) -> None:
    assert facts(*texts)["kv_pool"] == pool


def test_phases_and_the_model_class() -> None:
    text = (
        "Load weight end. elapsed=0.25 s, type=DeepseekV3ForCausalLM, avail mem=19.82 GB, mem usage=0.00 GB."
    )
    assert phase_of(text) == "Load weight end"
    assert facts(text) == {
        "model_class": "DeepseekV3ForCausalLM",
        "free_after_load_gib": "19.82",
        "weights_gib": "0.00",
    }
    assert phase_of("The server is fired up and ready to roll!") == "The server is fired up and ready to roll"
    assert phase_of("Decode batch, #running-req: 1") == ""


def test_memory_before_and_after_the_weights() -> None:
    assert facts("Load weight begin. avail mem=78.70 GB") == {"free_before_load_gib": "78.70"}
    assert facts("Model loading took 14.9889 GiB and 3.2 seconds") == {"weights_gib": "14.9889"}
    assert facts("server_args=ServerArgs(mem_fraction_static=0.874)")["mem_fraction_static"] == "0.874"
    assert facts("non-default args: {'gpu_memory_utilization': 0.9}")["gpu_memory_utilization"] == "0.9"
