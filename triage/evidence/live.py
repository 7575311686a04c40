"""Evidence asked of a host."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from triage.evidence.catalogue.process import WhoAmI
from triage.evidence.model import Answer, Origin, Query, Unanswered
from triage.evidence.recorded import Recorded, answer_from
from triage.evidence.redaction.redactor import Redactor
from triage.hosts.connection import Command, Connection, Joining, LostError, Output
from triage.hosts.rights import as_service

T = TypeVar("T")
MOST_BYTES = 512 << 20
"""Of all answers of a host, what they say on standard error among them."""

MOST_SECONDS = 600.0
"""That all questions to a host may take together."""
PATIENCE = 4
"""Questions in a row that may run out of time: one hung tool, disk or driver costs two or three."""


class LiveEvidence:
    """Asks over a connection, each question once, and keeps the redacted text of every answer.

    One that the connection was lost under is asked once more. A host that ends no answer in time, `PATIENCE`
    times in a row, is asked nothing more; nor is one whose answers have come to `MOST_BYTES`, or have taken
    `MOST_SECONDS`.
    """

    def __init__(self, connection: Connection, redactor: Redactor | None = None) -> None:
        self._connection = connection
        self._redactor = redactor or Redactor()
        self._answers: dict[str, Answer[Any]] = {}
        self._recorded: dict[str, Recorded] = {}
        self._late = 0  # answers in a row that time has cut
        self._bytes = 0
        self._seconds = 0.0

    @property
    def origin(self) -> Origin:
        return Origin("host", self._connection.name)

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """Everything that was asked so far, for a case."""
        return tuple(self._recorded.values())

    @property
    def redactor(self) -> Redactor:
        return self._redactor

    def ask(self, query: Query[T]) -> Answer[T]:
        """The host's answer. Raises UnreachableError when the host is lost."""
        key = query.key
        if key not in self._answers:
            self._keep(query, self._fetch(query))
        return cast("Answer[T]", self._answers[key])

    def foresee(self, queries: Sequence[Query[Any]]) -> None:
        """Ask a host that is far at once what was not asked. Raises as `ask`."""
        new = [query for query in queries if query.key not in self._answers]
        connection = self._connection
        if len(new) < 2 or self._why_not() or not isinstance(connection, Joining):
            return
        if sum(query.limit for query in new) > MOST_BYTES - self._bytes:
            return  # each alone, with what is left
        commands = [
            Command(self._rightly(each, each.argv()), self._time(each), each.limit, each.stdin().decode())
            for each in new
        ]
        outputs = self._counted(lambda: connection.run_each(commands))
        for query, output in zip(new, outputs, strict=False):  # fewer where one ran into a limit
            self._keep(query, self._fetch(query, output))

    def _keep(self, query: Query[Any], recorded: Recorded) -> None:
        self._recorded[query.key] = recorded
        self._answers[query.key] = answer_from(query, recorded)

    def _fetch(self, query: Query[Any], output: Output | None = None) -> Recorded:
        """What is kept of the answer to a query; `output` is that of its command, where it was run."""
        command = self._redactor.redact(shlex.join(query.argv()))
        why = "" if output else self._why_not()
        if why:
            return Recorded(query.key, command, missing=f"not asked: {why}")
        output = self._timed(output or self._run(query, query.argv()))
        lesser = query.lesser()
        if lesser and query.falls_short(output):
            command, output = self._redactor.redact(shlex.join(lesser)), self._timed(self._run(query, lesser))
        try:
            text = query.decode(output)
        except Unanswered as reason:
            why = self._redactor.redact(str(reason))
            return Recorded(query.key, command, missing=why, partial=output.cut)
        if output.cut == "time" and not text.strip():
            why = f"no answer within {query.timeout:g} s"
            return Recorded(query.key, command, missing=why, partial=output.cut)
        text = self._redactor.redact(text, query.is_source)
        return Recorded(query.key, command, text, partial=output.cut, source=query.is_source)

    def _rightly(self, query: Query[Any], argv: tuple[str, ...]) -> tuple[str, ...]:
        """A command as the host is to run it: for root, what is of another account, or was named by
        one, as that account."""
        places = query.places()
        if not places or self.ask(WhoAmI()).value != "root":
            return argv
        return as_service(query.account(), places, argv)

    def _run(self, query: Query[Any], argv: tuple[str, ...]) -> Output:
        words = self._rightly(query, argv)

        def asked() -> tuple[Output]:
            left = max(1, min(query.limit, MOST_BYTES - self._bytes))
            return (self._connection.run(words, stdin=query.stdin(), timeout=self._time(query), limit=left),)

        return self._counted(asked)[0]

    def _why_not(self) -> str:
        """Why the host is asked nothing more; "" where it is."""
        if self._late >= PATIENCE:
            return f"the host did not end {PATIENCE} answers in a row in time"
        if self._bytes >= MOST_BYTES:
            return f"its answers came to {MOST_BYTES >> 20} MiB, the most that is taken from one host"
        if self._seconds >= MOST_SECONDS:
            return f"its answers took {MOST_SECONDS:g} s, the most that is spent on one host"
        return ""

    def _time(self, query: Query[Any]) -> float:
        return max(1.0, min(query.timeout, MOST_SECONDS - self._seconds))

    def _counted(self, asked: Callable[[], Sequence[Output]]) -> Sequence[Output]:
        began = time.monotonic()
        try:
            outputs = _twice(asked)
        finally:
            self._seconds += time.monotonic() - began
        self._bytes += sum(len(each.stdout) + len(each.stderr) for each in outputs)
        return outputs

    def _timed(self, output: Output) -> Output:
        self._late = self._late + 1 if output.cut == "time" else 0
        return output


def _twice(asked: Callable[[], T]) -> T:
    try:
        return asked()
    except LostError:  # a question changes nothing
        return asked()
