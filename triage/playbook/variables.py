"""The variables of a run: the defaults of the playbook, and the values that were given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from triage.common.errors import UsageError
from triage.playbook.model import Playbook
from triage.playbook.schema import plain_value

FIX = "give variables as --var name=value"


def resolve(playbook: Playbook, given: Iterable[str]) -> dict[str, Any]:
    """Return every variable of a playbook, from its defaults and from `name=value` texts.

    A value is converted to the type of the default; it stays text if that is text or null. Raises UsageError
    for a name that the playbook does not have, and for a variable without a value.
    """
    values = dict(playbook.vars)
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise _error(playbook, f"{text!r} is not name=value")
        if name not in playbook.vars:
            known = ", ".join(playbook.vars) or "none"
            raise _error(playbook, f"it has no variable {name!r}; it has {known}")
        values[name] = _typed(playbook, name, value)
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise _error(playbook, f"{' and '.join(missing)} must be given", f"add --var {missing[0]}=...")
    return values


def _typed(playbook: Playbook, name: str, text: str) -> Any:
    default = playbook.vars[name]
    if default is None or isinstance(default, str):
        return text
    value = _parsed(text)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise _error(playbook, f"{name}={text} is not like its default, {default!r}")
    return value


def _parsed(text: str) -> Any:
    from triage.common.yaml import parse_yaml

    try:
        return plain_value(parse_yaml(text))
    except ValueError:
        return None


def _error(playbook: Playbook, happened: str, next: str = FIX) -> UsageError:
    return UsageError("setting the variables of", f"playbook {playbook.name}", happened, next)
