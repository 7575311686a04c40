"""Options that several commands share, declared once as the fields of a dataclass."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

import typer

from triage.cli import next_command

Command = TypeVar("Command", bound=Callable[..., None])


def with_groups(command: Command) -> Command:
    """The command for typer, with an option for each field of each parameter that is a dataclass.

    The options stand where that parameter stands. A field is declared as an option of a command is:
    `name: Annotated[type, typer.Option(...)] = default`. The command gets one instance of the dataclass.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        type_ = hints[parameter.name]
        if is_dataclass(type_) and isinstance(type_, type):
            groups[parameter.name] = type_
            parameters += _options(type_)
        else:
            parameters.append(parameter.replace(annotation=type_, kind=inspect.Parameter.KEYWORD_ONLY))
    context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)

    def run(context: typer.Context, **given: Any) -> None:
        next_command.remember(context)
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in (context, *parameters)}
    run.__signature__ = inspect.Signature([context, *parameters])  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]


def _options(group: type) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
