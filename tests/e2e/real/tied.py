"""Makes small models with a tied head and random weights: python tied.py DIR NAME..."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import transformers
from models import tokenizer

SIZES = {
    "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2,
    "pad_token_id": 2, "tie_word_embeddings": True, "initializer_range": 0.1,
}  # fmt: skip
CONFIGS = {
    "llama": ("Llama", {"head_dim": 32}),
    "exaone4": ("Exaone4", {"head_dim": 32, "sliding_window": None, "layer_types": ["full_attention"] * 4}),
    "granite": (
        "GraniteMoeHybrid",
        {
            "layer_types": ["attention"] * 4, "num_local_experts": 0, "num_experts_per_tok": 0,
            "shared_intermediate_size": 256, "position_embedding_type": "rope", "mamba_n_heads": 8,
            "mamba_d_head": 32,
        },
    ),
    "apertus": ("Apertus", {}),
    "opt": ("OPT", {"ffn_dim": 256, "word_embed_proj_dim": 128, "init_std": 0.1, "num_key_value_heads": 4}),
    "ernie": (
        "Ernie4_5_Moe",
        {
            "moe_intermediate_size": 64, "moe_k": 2, "moe_num_experts": 8, "moe_num_shared_experts": 1,
            "moe_layer_start_index": 1, "moe_layer_end_index": 3,
        },
    ),
    "falcon": (
        "FalconH1",
        {
            "mamba_d_ssm": 128, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 16,
            "mamba_n_groups": 1,
        },
    ),
}  # fmt: skip


def main(directory: Path, name: str) -> None:
    torch.manual_seed(0)
    words = tokenizer()
    kind, own = CONFIGS[name]
    config = getattr(transformers, f"{kind}Config")(vocab_size=len(words), **SIZES | own)
    if name == "exaone4":
        config.sliding_window_pattern = None
    model = getattr(transformers, f"{kind}ForCausalLM")(config).to(torch.bfloat16)
    model.save_pretrained(directory / name)
    words.save_pretrained(directory / name)


if __name__ == "__main__":
    for wanted in sys.argv[2:]:
        main(Path(sys.argv[1]), wanted)
