"""Named values for what this machine lacks: GPUs, their memory and streams, NCCL, weights, a tokeniser.

`VALUES` holds, for each module, the names that are replaced, whether the module itself is real or absent.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import torch
from torch.overrides import TorchFunctionMode

from .absent import Absent
from .model import StageModel

GPU_MEMORY_MIB = 97887  # RTX PRO 6000
GPU_CAPABILITY = (12, 0)  # SM120


def available_memory(*_: Any, **__: Any) -> float:
    """GB."""
    return float(psutil.virtual_memory().available) / (1 << 30)


class Configuration(SimpleNamespace):
    """A section of a model's config.json, as transformers gives it."""

    def get_text_config(self) -> Configuration:
        """The language part of a model that has several."""
        part: Configuration = getattr(self, "text_config", self)
        return part


def model_configuration(model_path: str, **_: Any) -> Configuration:
    """Read a model's config.json."""
    text = (Path(model_path) / "config.json").read_text(encoding="utf-8")
    configuration: Configuration = json.loads(text, object_hook=_section)
    return configuration


def _section(values: dict[str, Any]) -> Any:
    # SGLang reads this one as a mapping and all others as attributes.
    if "rope_type" in values:
        return values
    # transformers calls it dtype since version 5.
    return Configuration(**values, dtype=values.get("torch_dtype"))


class Loader:
    """Makes the stage's layers instead of reading weights."""

    def load_model(self, model_config: Any, device_config: object) -> StageModel:
        from sglang.srt.distributed import get_pp_group
        from sglang.srt.distributed.utils import get_pp_indices

        group, count = get_pp_group(), model_config.num_hidden_layers
        start, end = get_pp_indices(count, group.rank_in_group, group.world_size)
        kind = type(model_config.hf_config.architectures[0], (StageModel,), {})  # the log names it
        model: StageModel = kind(start, end)
        return model


class OnThisMachine(TorchFunctionMode):
    """Tensors that are meant for a GPU are made in memory."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        return func(*args, **kwargs)


def prepare_torch() -> None:
    """Let torch pass for one with a GPU where SGLang asks about it."""
    # Else gloo asks for the address of the host's name, which may have none.
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.compiler.disable = lambda fn=None, **_: fn
    torch.get_device_module = lambda device=None: Absent("device")  # type: ignore[assignment]
    torch.cuda.get_device_capability = lambda device=None: GPU_CAPABILITY


def launch_server(server_args: Any, **_: Any) -> None:
    """Come up and serve; imported late, because it stands on SGLang's own modules."""
    from .front import launch_server as launch

    launch(server_args)


VALUES: dict[str, dict[str, Any]] = {
    "sglang.kernels.ops.attention.extend_attention": {
        "_get_block_sizes_for_extend_attention": lambda **_: (64, 0, 64, 64, 64, 4),
    },
    "sglang.srt.distributed.parallel_state": {"get_default_distributed_backend": lambda device: "gloo"},
    "sglang.srt.entrypoints.http_server": {"launch_server": launch_server},
    "uvloop": {"EventLoopPolicy": lambda: None},
    "sglang.srt.model_loader.loader": {"get_model_loader": lambda **_: Loader()},
    "sglang.srt.model_executor.runner": {"get_batch_sizes_to_capture": lambda *_: ([1, 2, 4, 8], [])},
    "sglang.srt.utils.common": {
        "get_device": lambda device_id=None: "cuda",
        "get_device_memory_capacity": lambda device=None: GPU_MEMORY_MIB,
        "get_available_gpu_memory": available_memory,
        "assert_pkg_version": lambda *_, **__: None,
    },
    "sglang.srt.utils.hf_transformers_utils": {
        "get_config": model_configuration,
        "get_hf_text_config": Configuration.get_text_config,
        "get_context_length": lambda configuration: configuration.max_position_embeddings,
        "resolve_hf_gguf_reference": lambda *_, **__: None,
        "get_generation_config": lambda *_, **__: None,
        "get_sparse_attention_config": lambda *_, **__: {},
    },
}
