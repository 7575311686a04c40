"""Rules in the terminal: a list, one rule with all that it says, who fires where; and `triage.rules/1`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.text import Text

from triage.report.safe import safe, safe_line
from triage.rules.authoring.docs import Block, sections
from triage.rules.schema import Rule
from triage.workflows.rules import ExplainedRule, RuleList, RulesMatrix

WIDTH = 100


def explanation(rule: Rule) -> Iterator[Text]:
    """What it means, why it happens, how it is confirmed, what to do, references."""
    yield Text.assemble((rule.id, "bold"), (f"  {rule.category}, {rule.role}", "dim"))
    for section in sections(rule):
        yield Text()
        yield Text(section.heading.upper(), "bold cyan")
        previous = ""
        for block in section.blocks:
            if block.kind == previous == "text":
                yield Text()
            yield from _block(block)
            previous = block.kind


def everything(rule: Rule) -> Iterator[Text]:
    """Yield the lines of a rule with all of its cases."""
    yield from explanation(rule)
    for kind, cases in (("MATCHES", rule.cases.match), ("DOES NOT MATCH", rule.cases.near)):
        yield Text()
        yield Text(kind, "bold cyan")
        for number, case in enumerate(cases, 1):
            yield Text(f"  {number} {safe_line(case.note)}".rstrip(), "bold")
            for line in case.log.splitlines():
                yield Text(f"      {safe(line)}", "dim")


def _block(block: Block) -> Iterator[Text]:
    if block.kind == "code":
        for line in block.text.splitlines():
            yield Text(f"      {safe(line)}", "green")
        return
    first, rest = ("  - ", "    ") if block.kind in ("item", "link") else ("  ", "  ")
    text = safe_line(block.text, 10_000)
    if block.kind == "link":
        yield Text(f"{first}{text}")
        return
    for number, line in enumerate(textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)):
        yield Text(f"{rest if number else first}{line}")


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they need to be; the last one is not filled up."""
    safe_rows = [[safe_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*safe_rows, strict=True)]
    for row in safe_rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def list_lines(found: RuleList) -> Iterator[Text]:
    """Id, category, role, engine, title."""
    rows = [(rule.id, rule.category, rule.role, rule.engine or "any", rule.title) for rule in found.rules]
    return map(Text, table(rows))


def list_document(found: RuleList) -> dict[str, Any]:
    return document(found.rules)


def rule_lines(found: ExplainedRule) -> Iterator[Text]:
    return everything(found.rule) if found.with_cases else explanation(found.rule)


def rule_document(found: ExplainedRule) -> dict[str, Any]:
    return document([found.rule])


def matrix_lines(found: RulesMatrix) -> Iterator[Text]:
    return map(Text, table([("rule", "own", "near", "elsewhere"), *found.rows]))


def matrix_document(found: RulesMatrix) -> dict[str, Any]:
    """`triage.rules-matrix/1`."""
    return {"schema": "triage.rules-matrix/1", "cases": dict(found.fired)}


def document(rules: Iterable[Rule]) -> dict[str, Any]:
    """`triage.rules/1`: the rules as their files have them, without cases."""
    return {
        "schema": "triage.rules/1",
        "rules": [rule.model_dump(mode="json", by_alias=True, exclude={"cases"}) for rule in rules],
    }
