"""Runs real constructors of attention backends against the real KV pool of one pipeline stage, on CPU.

Reads jobs from standard input, [[ROOT, MODULE, CLASS, "mla", "mha" or "swa", START_LAYER, LAYERS], ...], and
prints one line for each, in a process of its own: {"asked": [layer, ...], "v_head_dim": N}, or with
"error" what was raised. ROOT is an unpacked wheel. The modules of the KV pools, of the backend and of
its base class are the released ones; everything else that they import is a mock. The job of the class
`MiniMaxSparseKVPool` asks that pool itself.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import json
import os
import sys
import traceback
import types
from typing import Any
from unittest.mock import MagicMock

import torch

MEMORY = "sglang.srt.mem_cache.memory_pool"
SLIDING = "sglang.srt.mem_cache.swa_memory_pool"
REAL = {MEMORY, SLIDING, "sglang.srt.layers.attention.base_attn_backend"}
# What mocks cannot stand for: numbers that are divided by, tuples that are unpacked, text that is split.
VALUES: dict[str, Any] = {
    "get_attention_tp_size": lambda: 1,
    "get_bool_env_var": lambda *_: False,
    "get_device_core_count": lambda *_: 1,
    "get_int_env_var": lambda name, default=0: default,
    "get_parallel": lambda: Ones(),
    "maybe_init_custom_mem_pool": lambda **_: (False, None, None),
    "get_tensor_size_bytes": lambda tensor: 0,
    "is_npu": lambda: False,
    "is_cuda": lambda: False,
    "is_hip": lambda: False,
    "is_cpu": lambda: True,
    "GB": 1 << 30,
    "mambaish_config": lambda *_: None,
    "hybrid_gdn_config": lambda *_: None,
    "kimi_linear_config": lambda *_: None,
    "linear_attn_model_spec": lambda *_: None,
    "_get_block_sizes_for_extend_attention": lambda *_, **__: (64, 64, 64, 64, 64, 4),
    "_lean_decode_launch_params": lambda *_, **__: (1, 1, 1),
}
# What a plain MLA or MHA model's runner does not have.
ABSENT = (
    "sliding_window_size", "hybrid_gdn_config", "kimi_linear_config", "linear_attn_model_spec", "is_hybrid",
    "is_hybrid_gdn", "mambaish_config", "mamba2_config",
)  # fmt: skip


class Ones:
    """Every size is 1."""

    def __getattr__(self, name: str) -> int:
        return 1


class Kind(type):
    """A class that has every attribute: a base, an enumeration, or what isinstance asks for."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=f"{cls.__name__}.{name}")


class Mocks(types.ModuleType):
    """A module in which every name is there."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return "9.9.9"
        if name.startswith("__"):
            raise AttributeError(name)
        if name in VALUES:
            return VALUES[name]
        is_class = name[0].isupper() and not name.isupper()
        found = Kind(name, (), {}) if is_class else MagicMock(name=f"{self.__name__}.{name}")
        return self.__dict__.setdefault(name, found)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the real modules, and mocks for whatever else is not installed."""

    def __init__(self, root: str, real: set[str]) -> None:
        self.root, self.real, self.searching = root, real, False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name in self.real:
            file = f"{self.root}/{name.replace('.', '/')}.py"
            return importlib.util.spec_from_file_location(name, file)
        if name.partition(".")[0] in MISSING:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> types.ModuleType:
        return Mocks(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """A mock has nothing to run."""


MISSING = {"sglang", "triton", "sgl_kernel", "wave_lang", "aiter", "psutil", "huggingface_hub", "numba"}


def pool_of(kind: str, start: int, layers: int, has_sliding: bool) -> Any:
    """The pool of a stage that owns `layers` layers from `start` on."""
    memory = importlib.import_module(MEMORY)
    common = {
        "size": 8, "page_size": 1, "dtype": torch.bfloat16, "layer_num": layers, "device": "cpu",
        "enable_memory_saver": False, "start_layer": start, "end_layer": start + layers - 1,
    }  # fmt: skip
    if kind == "swa":  # every other layer has a window
        owned = list(range(start, start + layers))
        sliding = importlib.import_module(SLIDING if has_sliding else MEMORY).SWAKVPool
        known = inspect.signature(sliding.__init__).parameters
        older = {"enable_kvcache_transpose": False} if "enable_kvcache_transpose" in known else {}
        pool = sliding(
            size=8, size_swa=8, page_size=1, dtype=torch.bfloat16, head_num=2, head_dim=128, device="cpu",
            full_attention_layer_ids=owned[::2], swa_attention_layer_ids=owned[1::2],
            **older,
        )  # fmt: skip
    elif kind == "mla":
        pool = memory.MLATokenToKVPool(kv_lora_rank=512, qk_rope_head_dim=64, **common)
    else:
        pool = memory.MHATokenToKVPool(head_num=2, head_dim=128, **common)
    return pool


def construct(root: str, module: str, name: str, kind: str, start: int, layers: int) -> dict[str, Any]:
    sys.meta_path.insert(0, Finder(root, REAL | {module}))
    asked: list[int] = []
    answer: dict[str, Any] = {"asked": asked}
    try:
        if name == "MiniMaxSparseKVPool":
            sparse = minimax_pool(start, layers)
            watch(sparse.main_pool, asked)
            answer["v_head_dim"] = sparse.get_v_head_dim()
        else:
            has_sliding = os.path.exists(f"{root}/{SLIDING.replace('.', '/')}.py")
            pool = pool_of(kind, start, layers, has_sliding)
            watch(pool, asked)
            backend = getattr(importlib.import_module(module), name)(runner_with(pool))
            answer["v_head_dim"] = backend.v_head_dim
    except (IndexError, KeyError, AttributeError) as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    return answer


def minimax_pool(start: int, layers: int) -> Any:
    memory = importlib.import_module(MEMORY)
    return memory.MiniMaxSparseKVPool(
        size=8, page_size=1, dtype=torch.bfloat16, head_num=2, head_dim=128, idx_head_dim=64,
        dense_layer_ids=[], sparse_layer_ids=list(range(61)), device="cpu",
        start_layer=start, end_layer=start + layers,
    )  # fmt: skip


def watch(pool: Any, asked: list[int]) -> None:
    """Note every layer whose value buffer is asked for."""
    get = pool.get_value_buffer

    def get_value_buffer(layer: int) -> Any:
        asked.append(layer)
        return get(layer)

    pool.get_value_buffer = get_value_buffer


def runner_with(pool: Any) -> Any:
    runner = MagicMock()
    runner.device = "cpu"
    runner.token_to_kv_pool = pool
    runner.req_to_token_pool.size = 4
    runner.model_config.num_attention_heads = 8
    runner.model_config.is_encoder_decoder = False
    runner.tp_size = 1
    for absent in ABSENT:
        setattr(runner, absent, None)
    return runner


def main() -> None:
    torch.compiler.disable = lambda fn=None, **_: fn
    torch.ops.sgl_kernel = MagicMock()  # type: ignore[attr-defined]
    for job in json.load(sys.stdin):
        child = os.fork()
        if not child:
            try:
                print(json.dumps(construct(*job)), flush=True)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    main()
