"""Answers kept as text: evidence that a case holds, and evidence that is a log alone."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from triage.evidence.model import Answer, Origin, Query, Unanswered
from triage.hosts.connection import why_cut

if TYPE_CHECKING:
    from triage.logs.model import LogSource

T = TypeVar("T")


@dataclass(frozen=True)
class Recorded:
    """The key and command of a query, and its canonical text, or the reason why there is none."""

    key: str
    command: str
    text: str | None = None
    missing: str = ""
    partial: str = ""
    source: bool = False  # the text is program text


@dataclass(frozen=True)
class Case:
    """A captured bundle. `unit` and `log` are what the diagnosis was asked with."""

    name: str
    recorded: tuple[Recorded, ...]
    unit: str = ""
    log: LogSource | None = None
    created: str = ""  # ISO 8601, UTC


def answer_from(query: Query[T], recorded: Recorded) -> Answer[T]:
    """Return the answer that a recorded text gives."""
    if recorded.text is None:
        return Answer(query, None, recorded.missing, recorded.partial, recorded.command)
    try:
        value = query.parse(recorded.text)
    except Unanswered as reason:
        cut = recorded.partial and f" ({why_cut(recorded.partial, query.timeout, query.limit)})"
        return Answer(query, None, f"{reason}{cut}", recorded.partial, recorded.command)
    return Answer(query, value, "", recorded.partial, recorded.command)


class RecordedEvidence:
    """Answers with what a case holds. Everything else is missing, and never guessed."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._recorded = {each.key: each for each in case.recorded}

    @property
    def origin(self) -> Origin:
        return Origin("case", self._case.name)

    def foresee(self, queries: Sequence[Query[Any]]) -> None:
        """Do nothing: there is no host to ask."""

    def ask(self, query: Query[T]) -> Answer[T]:
        recorded = self._recorded.get(query.key)
        if recorded is None:
            return Answer(query, None, "the case does not hold it", command=shlex.join(query.argv()))
        return answer_from(query, recorded)


class LogEvidence:
    """A log and nothing else: no query has an answer."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def origin(self) -> Origin:
        return Origin("log", self._name)

    def foresee(self, queries: Sequence[Query[Any]]) -> None:
        """Do nothing: there is no host to ask."""

    def ask(self, query: Query[T]) -> Answer[T]:
        return Answer(query, None, "only a log was given", command=shlex.join(query.argv()))
