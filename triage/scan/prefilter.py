"""Which files are worth parsing, by the words in them: of an engine's thousands a hundred are."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

# The pool is asked for layer 0.
BUFFER = rb"get_(?:value|key|kv)_buffer\(\s*0"
# The file's layers are dealt out to pipeline stages.
STAGED = (b"pp_proxy_tensors", b"SupportsPP", b"PPMissingLayer(", b"pp_rank=")
# What is then looked at.
PARTS = (
    b"layers[", b".layers)", b".layers:", b"in self.layers", b"model.layers", b"layers=self.layers",
    b"_layer = 0", b"make_layers(", b"embed_tokens", b"word_embeddings", b"params_dict[",
)  # fmt: skip

# A file with nothing of these holds nothing: what another machine is asked for.
SOUGHT = (*STAGED, b"get_value_buffer(", b"get_key_buffer(", b"get_kv_buffer(")


def may_hold(data: bytes) -> bool:
    """False only for a file without anything to find."""
    found = _finder()(data)
    return bool(found & _BUFFER or (found & _STAGED and found & _PARTS))


_WORDS = (*STAGED, *PARTS)
_BUFFER = 1
_STAGED = sum(2 << number for number in range(len(STAGED)))
_PARTS = sum(2 << number for number in range(len(STAGED), len(_WORDS)))


@functools.cache
def _finder() -> Callable[[bytes], int]:
    """What tells the words of a text as bits: Hyperscan in one pass, or Python word by word."""
    buffer = re.compile(BUFFER)
    try:
        import hyperscan
    except ImportError:

        def by_word(data: bytes) -> int:
            bits = sum(2 << number for number, word in enumerate(_WORDS) if word in data)
            return bits | (b"_buffer(" in data and buffer.search(data) is not None)

        return by_word
    patterns = [BUFFER, *(re.escape(word) for word in _WORDS)]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=patterns,
        ids=list(range(len(patterns))),
        flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(patterns),
    )

    def in_one_pass(data: bytes) -> int:
        bits = 0

        def found(number: int, *_: object) -> None:
            nonlocal bits
            bits |= 1 << number

        database.scan(data, match_event_handler=found)
        return bits

    return in_one_pass
