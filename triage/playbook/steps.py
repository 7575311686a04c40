"""Evaluates the expressions of a step. The errors name file, step and key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triage.common.errors import UsageError
from triage.playbook.arguments import wrong_value
from triage.playbook.model import Playbook
from triage.playbook.schema import Step
from triage.playbook.templates import ExpressionError, evaluate, render


def wanted(playbook: Playbook, step: Step, values: Mapping[str, Any]) -> bool:
    """Return whether the step's `when` holds. Raises UsageError."""
    if step.when is None:
        return True
    try:
        return bool(evaluate(step.when, values))
    except ExpressionError as error:
        raise _error(playbook, step, "when", str(error)) from None


def argument(playbook: Playbook, step: Step, name: str, values: Mapping[str, Any]) -> Any:
    """Return one argument, rendered and converted to its type. Raises UsageError."""
    try:
        value = render(step.with_[name], values)
    except ExpressionError as error:
        raise _error(playbook, step, f"with.{name}", str(error)) from None
    wrong = wrong_value(step.do, name, value)
    if wrong:
        raise _error(playbook, step, f"with.{name}", wrong)
    return value


def _error(playbook: Playbook, step: Step, key: str, happened: str) -> UsageError:
    return UsageError(
        f"running step {step.name!r} of", playbook.file, f"{key}: {happened}", f"fix {key} of this step"
    )
