"""What is said of the rules: a list of them, one of them, which fire where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from triage.rules.schema import Rule


@dataclass(frozen=True)
class RuleList:
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class ExplainedRule:
    """One rule: what it says, `with_cases` also every case."""

    rule: Rule
    with_cases: bool = False


@dataclass(frozen=True)
class RulesMatrix:
    """The rules that fire on each case, by its name, and a row of figures for each rule."""

    fired: Mapping[str, Sequence[str]]
    rows: tuple[tuple[str, ...], ...]
