"""Writes a GGUF file with a tiny model of the llama architecture: two layers, random weights, 512 tokens.

Its answers are words: only they are likely, so it neither ends early nor prints bytes that are no text.
The format is described in ggml's docs/gguf.md.

python -m tests.e2e.real.gguf FILE
"""

from __future__ import annotations

import random
import struct
import sys
from array import array
from pathlib import Path
from pydoc_data.topics import topics

ALIGNMENT = 32
VOCABULARY, WIDTH, INNER, LAYERS, HEADS, CONTEXT = 512, 64, 128, 2, 4, 4096
UINT32, FLOAT32, STRING, ARRAY, INT32, F32 = 4, 6, 8, 9, 5, 0
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
SPECIAL = ("<unk>", "<s>", "</s>")


def tokens() -> list[tuple[str, int]]:
    """Text and type of each: the special ones, every byte, and words of Python's own help."""
    words = sorted({word for text in topics.values() for word in text.split() if word.isalpha()})
    known = [(text, CONTROL) for text in SPECIAL]
    known[0] = (SPECIAL[0], UNKNOWN)
    known += [(f"<0x{byte:02X}>", BYTE) for byte in range(256)]
    return known + [(f"\u2581{word}", NORMAL) for word in words[: VOCABULARY - len(known)]]


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def number(value: int) -> bytes:
    return struct.pack("<II", UINT32, value)


def real(value: float) -> bytes:
    return struct.pack("<If", FLOAT32, value)


def text(value: str) -> bytes:
    return struct.pack("<I", STRING) + string(value)


def listed(kind: int, items: list[bytes]) -> bytes:
    return struct.pack("<IIQ", ARRAY, kind, len(items)) + b"".join(items)


def metadata(architecture: str) -> dict[str, bytes]:
    vocabulary = tokens()
    return {
        "general.architecture": text(architecture),
        "general.name": text("tiny"),
        f"{architecture}.context_length": number(CONTEXT),
        f"{architecture}.embedding_length": number(WIDTH),
        f"{architecture}.block_count": number(LAYERS),
        f"{architecture}.feed_forward_length": number(INNER),
        f"{architecture}.attention.head_count": number(HEADS),
        f"{architecture}.attention.head_count_kv": number(HEADS),
        f"{architecture}.attention.layer_norm_rms_epsilon": real(1e-5),
        f"{architecture}.rope.dimension_count": number(WIDTH // HEADS),
        "tokenizer.ggml.model": text("llama"),
        "tokenizer.ggml.tokens": listed(STRING, [string(token) for token, _ in vocabulary]),
        "tokenizer.ggml.scores": listed(FLOAT32, [struct.pack("<f", -place) for place in range(VOCABULARY)]),
        "tokenizer.ggml.token_type": listed(INT32, [struct.pack("<i", kind) for _, kind in vocabulary]),
        "tokenizer.ggml.bos_token_id": number(1),
        "tokenizer.ggml.eos_token_id": number(2),
    }


def tensors() -> dict[str, tuple[tuple[int, ...], array[float]]]:
    """Shape, innermost first, and values of each weight."""
    chance = random.Random(0)

    def drawn(*shape: int) -> tuple[tuple[int, ...], array[float]]:
        count = shape[0] * shape[1]
        return shape, array("f", (chance.gauss(0, shape[0] ** -0.5) for _ in range(count)))

    ones = (WIDTH,), array("f", [1.0] * WIDTH)
    made = {"token_embd.weight": drawn(WIDTH, VOCABULARY), "output_norm.weight": ones}
    shape, output = drawn(WIDTH, VOCABULARY)
    silent = WIDTH * sum(kind != NORMAL for _, kind in tokens())
    output[:silent] = array("f", bytes(4 * silent))
    made["output.weight"] = shape, output
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        made |= {f"{block}.{name}.weight": ones for name in ("attn_norm", "ffn_norm")}
        made |= {f"{block}.attn_{name}.weight": drawn(WIDTH, WIDTH) for name in ("q", "k", "v", "output")}
        made |= {f"{block}.ffn_{name}.weight": drawn(WIDTH, INNER) for name in ("gate", "up")}
        made[f"{block}.ffn_down.weight"] = drawn(INNER, WIDTH)
    return made


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT)


def gguf(architecture: str = "llama") -> bytes:
    """The file's content. Another architecture than `llama` is one that no program knows."""
    keys, weights = metadata(architecture), tensors()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(keys))
    head += b"".join(string(key) + value for key, value in keys.items())
    data = b""
    for name, (shape, values) in weights.items():
        head += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32, len(data))
        data += padded(values.tobytes())
    return padded(head) + data


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(gguf())
