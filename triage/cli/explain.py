"""`triage explain`: what a rule means, in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from triage.cli import console
from triage.cli.options import Format, FormatOption, RulesOption
from triage.workflows.knowledge import find_rule

RuleArgument = Annotated[str, typer.Argument(metavar="RULE", help="The id of a rule.")]


def explain(rule: RuleArgument, format: FormatOption = Format.TEXT, rules: RulesOption = None) -> None:
    """Say what RULE means, why it happens, how it is confirmed, and what to do."""
    from triage.workflows.rules import ExplainedRule

    console.show(ExplainedRule(find_rule(rule, rules)), format)
