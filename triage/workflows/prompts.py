"""What many threads ask one person, in the thread that has the terminal."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from contextlib import suppress
from queue import SimpleQueue
from threading import Event, Lock
from typing import Any

from triage.hosts.options import check

TICK = 0.5  # seconds of waiting at most before we look whether we are to stop


class Prompts:
    """Each question is asked once, whoever asks it; the answers are kept for as long as this is."""

    def __init__(self, stop: Event, answer: Callable[[str], str | None]) -> None:
        self.stop = stop
        self.answer = answer
        self.events: SimpleQueue[Future[Any] | str] = SimpleQueue()
        self._answers: dict[str, Future[str | None]] = {}
        self._lock = Lock()

    def ask(self, question: str) -> str | None:
        """Wait in a thread for the answer. Raises KeyboardInterrupt if the program is to stop."""
        with self._lock:
            if question not in self._answers:
                self._answers[question] = Future()
                self.events.put(question)
            waiting = self._answers[question]
        while True:
            with suppress(TimeoutError):
                return waiting.result(TICK)
            check(self.stop)

    def next_ended(self) -> Future[Any]:
        """In the thread that has the terminal: answer what is asked until one of the futures, whose callback
        is `events.put`, has ended."""
        while isinstance(event := self.events.get(), str):
            self._answers[event].set_result(self.answer(event))
        return event
