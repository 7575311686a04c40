"""Every case of every rule as a test: its own log matches and nothing else does, a near miss does not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from triage import pipeline
from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.rules.schema import Rule

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


def check(case: RuleCase, knowledge: pipeline.Knowledge) -> Checked:
    """Hold every rule against the case."""
    found = fired(case.log, knowledge)
    return Checked(case, found, _problem(case, found))


def fired(log: str, knowledge: pipeline.Knowledge) -> tuple[str, ...]:
    """Ids of the rules that propose themselves for the last incident of a log, best first."""
    report = pipeline.diagnose(LogEvidence("case"), knowledge, "", LogSource("case", log.encode()))
    return tuple(item.rule for item in report.incidents[-1].diagnoses) if report.incidents else ()


def _problem(case: RuleCase, found: tuple[str, ...]) -> str:
    others = [rule for rule in found if rule != case.rule]
    if case.kind == "near":
        return "it matches, and must not" if case.rule in found else ""
    if case.rule not in found:
        return f"it does not match; {', '.join(others)} does" if others else "it does not match"
    return f"{', '.join(others)} matches as well" if others else ""
