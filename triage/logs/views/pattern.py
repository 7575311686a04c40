"""A user's regular expression over a hostile text: time linear in the text, or an error."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from triage.common.errors import UsageError
from triage.logs.reading.line import MATCH_LIMIT

START = 1.0
"""Seconds that matching may take, whatever the size of the text."""

PER_CHARACTER = 1e-6
"""Seconds that it may take for each character besides; ordinary patterns need a hundredth."""


class Pattern:
    """Searches line after line. Raises UsageError when compiled from nonsense, or when it takes too long.

    Only the first MATCH_LIMIT characters of a line are looked at. Searching needs `watched` around it.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._allowed = START
        try:
            self._compiled = re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise UsageError(
                "searching", repr(text), f"this is no pattern: {error}", "write it as Python does"
            ) from None

    def found_in(self, text: str) -> bool:
        text = text[:MATCH_LIMIT]
        self._allowed += len(text) * PER_CHARACTER
        signal.setitimer(signal.ITIMER_REAL, self._allowed)
        start = time.perf_counter()
        try:
            found = self._compiled.search(text) is not None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        self._allowed -= time.perf_counter() - start
        if self._allowed <= 0:
            self._too_slow()
        return found

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Search in the main thread, and break off what takes too long."""

        def alarm(number: int, frame: FrameType | None) -> None:
            self._too_slow()

        before = signal.signal(signal.SIGALRM, alarm)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, before)

    def _too_slow(self) -> None:
        raise UsageError(
            "searching",
            repr(self._text),
            "the pattern tries too many ways to match",
            "write it without repeats inside repeats",
        )
