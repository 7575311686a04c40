"""Evidence asked of a host."""

from __future__ import annotations

import shlex
from typing import Any, TypeVar, cast

from triage.evidence.model import Answer, Origin, Query, Unanswered
from triage.evidence.recorded import Recorded, answer_from
from triage.evidence.redaction import Redactor
from triage.hosts.connection import Connection, LostError, Output

T = TypeVar("T")
PATIENCE = 4
"""Questions in a row that may run out of time: one hung tool, disk or driver costs two or three."""


class LiveEvidence:
    """Asks over a connection, each question once, and keeps the redacted text of every answer.

    One that the connection was lost under is asked once more. A host that ends no answer in time, `PATIENCE`
    times in a row, is asked nothing more.
    """

    def __init__(self, connection: Connection, redactor: Redactor | None = None) -> None:
        self._connection = connection
        self._redactor = redactor or Redactor()
        self._answers: dict[str, Answer[Any]] = {}
        self._recorded: dict[str, Recorded] = {}
        self._late = 0  # answers in a row that time has cut

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
            self._recorded[key] = recorded = self._fetch(query)
            self._answers[key] = answer_from(query, recorded)
        return cast("Answer[T]", self._answers[key])

    def _fetch(self, query: Query[Any]) -> Recorded:
        command = self._redactor.redact(shlex.join(query.argv()))
        if self._late >= PATIENCE:
            why = f"not asked: the host did not end {PATIENCE} answers in a row in time"
            return Recorded(query.key, command, missing=why)
        output = self._run(query, query.argv())
        lesser = query.lesser()
        if lesser and query.falls_short(output):
            command, output = self._redactor.redact(shlex.join(lesser)), self._run(query, lesser)
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

    def _run(self, query: Query[Any], argv: tuple[str, ...]) -> Output:
        def asked() -> Output:
            return self._connection.run(argv, stdin=query.stdin(), timeout=query.timeout, limit=query.limit)

        try:
            output = asked()
        except LostError:  # a question changes nothing
            output = asked()
        self._late = self._late + 1 if output.cut == "time" else 0
        return output
