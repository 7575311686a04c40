"""A tokeniser in which a word is a token.

Prompts may hold any word: one that is not in the vocabulary is hashed into the range behind it.
Answers are made of the vocabulary alone.
"""

from __future__ import annotations

import re
import zlib

_WORDS = """
the of and to in is that it for on with as are this be at by from or an have not but which one all
when there what time out up into no more some than then its over two may first new after between
each long under same water light small state north river stone green house road night sun wind sea
tree hand field city iron glass year day word line rain snow fire bird horse table door window music
"""
VOCABULARY = _WORDS.split()
END = len(VOCABULARY)  # the end-of-sequence token
HASHED = 1024
SIZE = END + 1 + HASHED  # rows of the embedding
ANSWERS = END + 1  # tokens that the model can choose

_IDS = {word: number for number, word in enumerate(VOCABULARY)}
_PIECE = re.compile(r"\w+|[^\w\s]")


def encode(text: str) -> list[int]:
    """Token ids of a text; never empty."""
    return [_id(piece) for piece in _PIECE.findall(text.lower())] or [END]


def decode(token: int) -> str:
    """The text that one token adds to an answer."""
    return "" if token == END else f" {VOCABULARY[token]}"


def _id(piece: str) -> int:
    return _IDS.get(piece, END + 1 + zlib.crc32(piece.encode()) % HASHED)
