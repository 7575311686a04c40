"""What the front and the first stage say to each other."""

from __future__ import annotations

import multiprocessing
import queue
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection


@dataclass(frozen=True)
class Request:
    """One completion to make."""

    number: int
    tokens: list[int]
    max_new: int
    temperature: float
    seed: int
    ignore_end: bool


@dataclass(frozen=True)
class Token:
    """One token of an answer; `finish` is "stop" or "length" with the last one."""

    number: int
    token: int
    finish: str | None


class Link:
    """Two ends of a pipe: `stage` goes to the first stage, the rest is the front's."""

    def __init__(self) -> None:
        self._front: Connection
        self._front, self.stage = multiprocessing.Pipe()
        self._sending = threading.Lock()
        self._waiting: dict[int, queue.SimpleQueue[Token]] = {}
        self.span = 0  # tokens that one sequence may have; the stage says it first

    def open(self) -> None:
        """Wait for the first word of the stage and begin to receive."""
        self.span = self._front.recv()
        threading.Thread(target=self._receive, daemon=True).start()

    @property
    def running(self) -> list[int]:
        """Numbers of the requests without an end."""
        return list(self._waiting)

    def submit(self, request: Request) -> queue.SimpleQueue[Token]:
        """Begin an answer and give the queue on which its tokens come."""
        answer: queue.SimpleQueue[Token] = queue.SimpleQueue()
        self._waiting[request.number] = answer
        self._send(request)
        return answer

    def drop(self, number: int) -> None:
        """End an answer that nobody reads any more; nothing happens if it has ended."""
        if self._waiting.pop(number, None):
            self._send(number)

    def _send(self, message: Request | int) -> None:
        with self._sending:
            self._front.send(message)

    def _receive(self) -> None:
        while True:
            token: Token = self._front.recv()
            if answer := self._waiting.get(token.number):
                answer.put(token)
                if token.finish:
                    self._waiting.pop(token.number, None)
