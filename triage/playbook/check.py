"""Checks a playbook that has the right shape: names, arguments and expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from triage.playbook.arguments import ARGUMENTS, wrong_names, wrong_value
from triage.playbook.schema import PlaybookFile, Step
from triage.playbook.templates import ExpressionError, expression_names, render, template_names

HOST = "host"  # the name of the host, known in every expression
RESERVED = frozenset({HOST, "self", "true", "false", "none", "and", "or", "not", "in", "is", "if", "else"})


def problems(playbook: PlaybookFile) -> Iterator[str]:
    """Return every problem as `key: what is wrong`, in the order of the file."""
    for name, value in playbook.vars.items():
        if name in RESERVED:
            yield f"vars.{name}: this name is taken"
        if any("{{" in text for text in _texts(value)):
            yield f"vars.{name}: a default is plain data, without expressions"
    known = {HOST, *playbook.vars}
    titles: set[str] = set()
    registered: set[str] = set()
    for index, step in enumerate(playbook.steps):
        yield from _step(f"steps.{index}", step, known, registered, titles)
        later = set(known)
        for number, other in enumerate(step.on_failure):
            yield from _step(f"steps.{index}.on_failure.{number}", other, later, registered, titles)


def _step(place: str, step: Step, known: set[str], registered: set[str], titles: set[str]) -> Iterator[str]:
    """Check one step. Adds its title, and the name of its result, to those known in later steps."""
    place = f"{place} ({step.name})"
    if step.name in titles:
        yield f"{place}: another step has this name"
    titles.add(step.name)
    if step.do in ("set", "stop") and (step.retry or step.consent):
        yield f"{place}: {step.do} takes neither retry nor consent"
    if step.do in ("set", "stop") and (step.register_ is None) == (step.do == "set"):
        yield f"{place}.register: set needs it, stop does not take it"
    if step.when is not None:
        yield from _unknown(f"{place}.when", expression_names, step.when, known)
    for name, wrong in wrong_names(step.do, step.with_):
        yield f"{place}.with.{name}: {wrong}"
    for name, value in step.with_.items():
        yield from _argument(f"{place}.with.{name}", step, name, value, known)
    if step.register_ is not None:
        if step.register_ in registered | known | RESERVED:
            yield f"{place}.register: the name {step.register_} is taken"
        known.add(step.register_)
        registered.add(step.register_)


def _argument(key: str, step: Step, name: str, value: Any, known: set[str]) -> Iterator[str]:
    """Check an argument that depends on nothing. Any other is checked when the step runs."""
    wrong = list(_unknown(key, template_names, value, known))
    yield from wrong
    known_argument = step.do == "set" or name in ARGUMENTS[step.do]
    if wrong or not known_argument or template_names(value):
        return
    try:
        reason = wrong_value(step.do, name, render(value, {}))
    except ExpressionError as error:
        reason = str(error)
    if reason:
        yield f"{key}: {reason}"


def _unknown(
    key: str, names_of: Callable[[Any], frozenset[str]], source: Any, known: set[str]
) -> Iterator[str]:
    try:
        unknown = sorted(names_of(source) - known)
    except ExpressionError as error:
        yield f"{key}: {error}"
        return
    for name in unknown:
        there = ", ".join(sorted(known))
        yield f"{key}: {name} is neither in vars nor registered by a step before; there are {there}"


def _texts(value: Any) -> list[str]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, str)]
