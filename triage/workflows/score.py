"""How often a tool is right on labelled cases, beside what a plain search for the first fault finds."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triage.common.errors import TriageError
from triage.common.yaml_files import load_model
from triage.evidence.cases.archive import opened
from triage.workflows.replay import (
    EXPECTED,
    Difference,
    Expected,
    Replayed,
    compare_found,
    log_lines,
    names_fault,
)

PARTS = ("incident", "initiator", "ranks", "roles", "category")

_EXCEPTION = re.compile(r"\b[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b")
_FAILURE = re.compile(
    r"error|fail|fatal|panic|abort|killed|cannot|can't|could not|unable|refused|denied|not found|timed out"
    r"|out of memory|exception",
    re.IGNORECASE,
)
BASELINES: Mapping[str, tuple[re.Pattern[str], int]] = {
    "first exception": (_EXCEPTION, 0),
    "last exception": (_EXCEPTION, -1),
    "first word of failure": (_FAILURE, 0),
    "last word of failure": (_FAILURE, -1),
}
"""Searches that anybody can make: a pattern, and which of the lines with it is taken for the first fault."""


@dataclass(frozen=True)
class Share:
    """How many of the cases whose label says something of a part came out right."""

    right: int
    asked: int


@dataclass(frozen=True)
class Score:
    """Accuracy over labelled cases.

    `parts` holds `incident` (found, or rightly not), `initiator`, `ranks`, `roles` and `category`. A category
    that is not right is `unanswered` (`unknown`, or nothing was found), `guessed` (`possible`) or, by name,
    confidently `wrong`: likely or confirmed, and another one. `silent` names the cases with an
    incident in which none was found. `baselines` holds, for each of `BASELINES`, how often its line is the
    initiator's.
    """

    cases: int
    parts: dict[str, Share]
    unanswered: int
    guessed: int
    wrong: tuple[str, ...]
    silent: tuple[str, ...]
    baselines: dict[str, Share]


def score(results: Sequence[Replayed]) -> Score:
    """How often each part came out as its label says; a case that could not be read has nothing right."""
    right: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    guessed = 0
    wrong = []
    silent = []
    for result in results:
        found, differing = result.found, {difference.part for difference in result.differences}
        lost = found is None or (found.category == "none" and "incident" in differing)
        if lost and found is not None:
            silent.append(result.name)
        for part in _labelled(result.expected):
            asked[part] += 1
            right[part] += not lost and part not in differing
        if found is not None and not lost and "category" in differing:
            guessed += found.certainty == "possible"
            if found.certainty in ("confirmed", "likely"):
                wrong.append(result.name)
    parts = {part: Share(right[part], asked[part]) for part in PARTS}
    unanswered = asked["category"] - right["category"] - guessed - len(wrong)
    return Score(len(results), parts, unanswered, guessed, tuple(wrong), tuple(silent), _searched(results))


def answered(cases: Iterable[Path], said: Mapping[str, Mapping[str, str | None]]) -> Iterator[Replayed]:
    """The cases with what another tool `said` of each: its category, certainty and initiator.

    A case that it does not name counts as one in which it found nothing.
    """
    for case in cases:
        found = said.get(str(case))
        expected = None
        answer = (
            Expected(category="none")
            if found is None
            else Expected(
                category=found["category"] or "none",
                certainty=found["certainty"],
                initiator=found["initiator"],
            )
        )
        try:
            with opened(case) as directory:
                expected = load_model(directory / EXPECTED, Expected, "expectation")
                differences = tuple(compare_found(expected, answer, log_lines(directory)))
        except TriageError as error:
            differences = (Difference("error", str(error)),)
        yield Replayed(str(case), 0.0, differences, answer, expected)


def _labelled(expected: Expected | None) -> tuple[str, ...]:
    """The parts of which a label says something."""
    if expected is None or expected.category == "none":
        return ("incident",)
    says = {
        "initiator": (expected.initiator, expected.initiator_line, expected.type, expected.undecided or None),
        "ranks": (expected.ranks,),
        "roles": (expected.roles or None,),
        "category": (expected.category,),
    }
    return ("incident", *(part for part, labels in says.items() if any(each is not None for each in labels)))


def _searched(results: Sequence[Replayed]) -> dict[str, Share]:
    right: Counter[str] = Counter()
    asked = 0
    for result in results:
        expected = result.expected
        if expected is None or (expected.initiator is None and expected.initiator_line is None):
            continue
        try:
            with opened(Path(result.name)) as directory:
                lines = log_lines(directory)
        except TriageError:
            continue
        if not lines:
            continue
        asked += 1
        for name, (pattern, which) in BASELINES.items():
            hits = [number for number, line in enumerate(lines, 1) if pattern.search(line)]
            right[name] += bool(hits) and _is_initiator(expected, hits[which], lines[hits[which] - 1])
    return {name: Share(right[name], asked) for name in BASELINES}


def _is_initiator(expected: Expected, number: int, line: str) -> bool:
    if expected.initiator_line is not None:
        return number == expected.initiator_line
    return expected.initiator is not None and names_fault(expected.initiator, line.strip())
