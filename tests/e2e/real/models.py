"""Makes `DIR/tiny-llama-8L`: 8 layers with random weights, and a tokenizer trained on Python's own help.

Its answers are text: pieces of characters, blanks and special tokens are never the likeliest.

python models.py DIR    in an environment that has torch, tokenizers and transformers
"""

from __future__ import annotations

import sys
from pathlib import Path
from pydoc_data.topics import topics

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

SPECIAL = ["<unk>", "<s>", "</s>"]


def tokenizer() -> PreTrainedTokenizerFast:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        topics.values(),
        trainers.BpeTrainer(vocab_size=2048, special_tokens=SPECIAL, initial_alphabet=alphabet),
    )
    names = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=made, model_max_length=4096, **names)


def is_text(decoded: str) -> bool:
    return bool(decoded.strip()) and "\ufffd" not in decoded and decoded not in SPECIAL


def main(directory: Path) -> None:
    torch.manual_seed(0)
    words = tokenizer()
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=8,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=4096,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
    )
    place, model = directory / "tiny-llama-8L", LlamaForCausalLM(config)
    with torch.no_grad():
        model.lm_head.weight[[not is_text(words.decode([token])) for token in range(len(words))]] = 0
    model.to(torch.bfloat16).save_pretrained(place)
    words.save_pretrained(place)
    GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2).save_pretrained(place)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
