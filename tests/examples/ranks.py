"""Which stages of a model raise, by the real pools and the real backend; run by the service's own Python.

usage: DIR/bin/python ranks.py LAYERS STAGES. Prints a JSON list: for each stage its first layer, its number
of layers, and the layer whose values the backend read, null where the constructor raised.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

from story import absent, standins

standins.prepare_torch()
absent.install(standins.VALUES)

import torch  # noqa: E402
from sglang.srt.configs.model_config import AttentionArch  # noqa: E402
from sglang.srt.distributed.utils import get_pp_indices  # noqa: E402
from sglang.srt.layers.attention import triton_backend  # noqa: E402
from sglang.srt.layers.attention.attention_registry import ATTENTION_BACKENDS  # noqa: E402
from sglang.srt.mem_cache.memory_pool import MLATokenToKVPool  # noqa: E402

triton_backend.get_attention_tp_size = lambda: 1  # one stage without its neighbours has no process groups


class Pool(MLATokenToKVPool):
    """Remembers the layer that it was asked for by the buffer that it gave."""

    read: int | None = None

    def get_value_buffer(self, layer_id: int) -> torch.Tensor:
        given = super().get_value_buffer(layer_id)
        own = [buffer.data_ptr() for buffer in self.kv_buffer]
        self.read = self.start_layer + own.index(given.data_ptr())
        return given


def stage(rank: int, size: int, layers: int) -> dict[str, int | None]:
    """What becomes of one stage."""
    start, end = get_pp_indices(layers, rank, size)
    pool = Pool(
        16,
        page_size=1,
        dtype=torch.bfloat16,
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        layer_num=end - start,
        device="cpu",
        enable_memory_saver=False,
        start_layer=start,
        end_layer=end,
    )
    model = SimpleNamespace(
        attention_arch=AttentionArch.MLA,
        num_attention_heads=64,
        get_num_kv_heads=lambda tp_size: 64,
        v_head_dim=128,
        swa_v_head_dim=128,
        context_len=4096,
        is_encoder_decoder=False,
    )
    runner = SimpleNamespace(
        gpu_id=0,
        model_config=model,
        token_to_kv_pool=pool,
        token_to_kv_pool_allocator=None,
        req_to_token_pool=SimpleNamespace(size=4, req_to_token=torch.zeros(4, 16)),
        sliding_window_size=None,
        hybrid_gdn_config=None,
        kimi_linear_config=None,
        linear_attn_model_spec=None,
        device="cpu",
        server_args=SimpleNamespace(
            speculative_num_draft_tokens=None,
            speculative_num_steps=None,
            triton_attention_num_kv_splits=8,
            triton_attention_split_tile_size=None,
            enable_deterministic_inference=False,
            disable_cuda_graph=False,
            chunked_prefill_size=8192,
        ),
    )
    try:
        ATTENTION_BACKENDS["triton"](runner)
    except IndexError:
        pool.read = None
    return {"start": start, "layers": end - start, "read": pool.read}


if __name__ == "__main__":
    layers, size = map(int, sys.argv[1:])
    json.dump([stage(rank, size, layers) for rank in range(size)], sys.stdout)
