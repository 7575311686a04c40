"""Every case of every rule as a test: its own log matches and nothing else does, a near miss does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.rules.schema import Rule
from triage.workflows import diagnose

CaseKind = Literal["match", "near"]


@dataclass(frozen=True)
class RuleCase:
    """A log of a rule; `number` counts from 1 in its kind."""

    rule: str
    kind: CaseKind
    number: int
    log: str

    def __str__(self) -> str:
        return f"{self.rule} {self.kind} {self.number}"


@dataclass(frozen=True)
class Checked:
    """The rules that fire on a case, best first, and what is wrong with that, "" when nothing is."""

    case: RuleCase
    fired: tuple[str, ...]
    problem: str


def rule_cases(rules: Iterable[Rule]) -> Iterator[RuleCase]:
    """Every case, rule by rule, matches first."""
    for rule in rules:
        for number, case in enumerate(rule.cases.match, 1):
            yield RuleCase(rule.id, "match", number, case.log)
        for number, case in enumerate(rule.cases.near, 1):
            yield RuleCase(rule.id, "near", number, case.log)


def check(case: RuleCase, knowledge: diagnose.Knowledge) -> Checked:
    """Hold every rule against the case."""
    found = fired(case.log, knowledge)
    return Checked(case, found, _problem(case, found))


def fired(log: str, knowledge: diagnose.Knowledge) -> tuple[str, ...]:
    """Ids of the rules that propose themselves for the last incident of a log, best first."""
    return fired_in(diagnose.diagnose(LogEvidence("case"), knowledge, "", LogSource("case", log.encode())))


def fired_in(report: diagnose.Report) -> tuple[str, ...]:
    """Return the rules that fired in a report."""
    return tuple(item.rule for item in report.incidents[-1].diagnoses) if report.incidents else ()


@dataclass(frozen=True)
class Row:
    """The cases that a rule fires on: how many of its own, of its near misses, and which others."""

    rule: str
    own: tuple[int, int]
    near: tuple[int, int]
    elsewhere: tuple[str, ...]


def matrix(results: Iterable[Checked], further: Mapping[str, tuple[str, ...]]) -> tuple[Row, ...]:
    """One row a rule, in the order of the results. `further` maps other cases to who fires there."""
    by_kind: dict[tuple[str, CaseKind], list[bool]] = {}
    elsewhere: dict[str, list[str]] = {}
    for result in results:
        case = result.case
        by_kind.setdefault((case.rule, case.kind), []).append(case.rule in result.fired)
        for rule in result.fired:
            if rule != case.rule:
                elsewhere.setdefault(rule, []).append(str(case))
    for name, rules in further.items():
        for rule in rules:
            elsewhere.setdefault(rule, []).append(name)
    return tuple(
        Row(
            rule,
            _count(by_kind[rule, "match"]),
            _count(by_kind.get((rule, "near"), [])),
            tuple(elsewhere.get(rule, ())),
        )
        for rule in dict.fromkeys(rule for rule, _ in by_kind)
    )


def _count(fired: list[bool]) -> tuple[int, int]:
    return sum(fired), len(fired)


def _problem(case: RuleCase, found: tuple[str, ...]) -> str:
    others = [rule for rule in found if rule != case.rule]
    if case.kind == "near":
        return "it matches, and must not" if case.rule in found else ""
    if case.rule not in found:
        return f"it does not match; {', '.join(others)} does" if others else "it does not match"
    return f"{', '.join(others)} matches as well" if others else ""
