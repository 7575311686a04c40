"""Finds which of some words occur in a text: in one pass with Hyperscan, or one by one without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property, lru_cache
from threading import Lock

compiled = lru_cache(maxsize=None)(re.compile)
"""A pattern is compiled when a word of it was found: most of some two hundred never are."""

SMALL = 1 << 17
"""Characters of all texts together up to which words are searched one by one, because loading Hyperscan takes
time.
"""


class Words:
    """A few dozen plain words to search for in large texts."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = tuple(dict.fromkeys(words))
        self._searched = 0

    def in_text(self, text: str) -> tuple[str, ...]:
        """Return the words that occur in `text`, in the order in which they were given."""
        self._searched += len(text)
        if self._searched <= SMALL or self._find is None:
            return tuple(word for word in self._words if word in text)
        found = self._find(text.encode("utf-8", "surrogatepass"))
        return tuple(self._words[number] for number in sorted(found))

    @cached_property
    def _find(self) -> Callable[[bytes], set[int]] | None:
        """Return a function from bytes to the numbers of the words in them."""
        try:
            import hyperscan
        except ImportError:
            return None
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[word.encode() for word in self._words],
            ids=list(range(len(self._words))),
            flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(self._words),
            literal=True,
        )
        scanning = Lock()  # a database has one scratch space, for one scan at a time

        def find(data: bytes) -> set[int]:
            found: set[int] = set()
            with scanning:
                database.scan(data, match_event_handler=lambda number, *_: found.add(number))
            return found

        return find
