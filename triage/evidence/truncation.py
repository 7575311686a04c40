"""What was told only in part. What stands in the rest of a list is not there for whoever reads the part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from triage.common.errors import TriageError
from triage.evidence.model import Answer, Evidence, Origin, Query
from triage.hosts.connection import why_cut

T = TypeVar("T")
TOLD = 8
"""Answers that are named; of more only their number is told."""


class NotingCuts:
    """Evidence, and which of its answers a limit in bytes or time has cut."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._cut: dict[str, Answer[Any]] = {}

    @property
    def origin(self) -> Origin:
        return self._evidence.origin

    def foresee(self, queries: Sequence[Query[Any]]) -> None:
        self._evidence.foresee(queries)

    def ask(self, query: Query[T]) -> Answer[T]:
        answer = self._evidence.ask(query)
        if answer.partial:
            self._cut[query.key] = answer
        return answer

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each, for a report."""
        cut = [*self._cut.values()]
        more = len(cut) - TOLD
        return (*map(_note, cut[:TOLD]), *([f"{more} more answers were cut"] if more > 0 else []))

    @contextmanager
    def in_errors(self) -> Iterator[None]:
        """An error that is raised here says as well what was cut before."""
        try:
            yield
        except TriageError as error:
            error.happened = "; ".join((error.happened, *self.notes))
            raise


def _note(answer: Answer[Any]) -> str:
    query = answer.query
    about = " ".join(str(getattr(query, field.name)) for field in dataclasses.fields(query))[:200]
    why = why_cut(answer.partial, query.timeout, query.limit)
    return f"{f'{query.name} {about}'.strip()}: the answer was cut ({why}); it was asked to {query.purpose}"
