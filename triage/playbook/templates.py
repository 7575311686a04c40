"""Expressions and templates of playbooks: data in, data out.

An expression sees keys, items, operators, tests and a few filters. There are no attributes, no calls
and no statements in it, so there is nothing to escape by, and nothing that makes much out of little.
What an expression gives is data: it is never read as a template again.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jinja2 import ChainableUndefined, StrictUndefined, TemplateError, Undefined, nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

MAX_SOURCE = 4096  # characters of one template
MAX_VALUE = 1 << 20  # characters of one value, as JSON
FILTERS = (
    *("default", "first", "last", "length", "join", "list", "lower", "upper", "trim", "string"),
    *("int", "float", "abs", "round", "min", "max", "sort", "unique"),
)
LISTING = ("map", "select", "reject", "selectattr", "rejectattr")  # Jinja's give generators: always true


class ExpressionError(Exception):
    """An expression is wrong, or has no value here; the message says why."""


def expression_names(source: str) -> frozenset[str]:
    """The names that an expression needs. Raises ExpressionError when it is none."""
    return _compile(source)[0]


def template_names(value: Any) -> frozenset[str]:
    """The names that the `{{ expressions }}` in a text or list need. Raises ExpressionError."""
    if isinstance(value, list):
        return frozenset[str]().union(*map(template_names, value))
    if not isinstance(value, str):
        return frozenset()
    found = (expression_names(part) for kind, part in _parts(value) if kind == "expression")
    return frozenset[str]().union(*found)


def evaluate(source: str, values: Mapping[str, Any]) -> Any:
    """The value of an expression: JSON. Raises ExpressionError, also where a name or key is missing."""
    expression = _compile(source)[1]
    try:
        return _plain(expression(values))
    except Exception as error:  # an expression over foreign data may raise anything
        raise ExpressionError(f"{_short(source)}: {error or type(error).__name__}") from None


def render(value: Any, values: Mapping[str, Any]) -> Any:
    """A text or list with its expressions replaced: JSON. Raises ExpressionError.

    A text that is one expression and nothing else becomes that expression's value, of whatever type.
    """
    if isinstance(value, list):
        return [render(item, values) for item in value]
    if not isinstance(value, str):
        return value
    parts = list(_parts(value))
    if [kind for kind, _ in parts] == ["expression"]:
        return evaluate(parts[0][1], values)
    return _bounded(
        "".join(part if kind == "text" else _spelled(evaluate(part, values)) for kind, part in parts)
    )


class _Missing(ChainableUndefined, StrictUndefined):
    """`a.b.c | default(x)` is x wherever the chain breaks; any other use of a broken chain is an error."""


class _Environment(SandboxedEnvironment):
    intercepted_binops = frozenset({"*"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if isinstance(left, (str, list, tuple)) or isinstance(right, (str, list, tuple)):
            raise SecurityError(f"{operator} is for numbers")
        return super().call_binop(context, operator, left, right)


def _listing(filter: Callable[..., Any]) -> Callable[..., list[Any]]:
    @functools.wraps(filter)
    def listed(*args: Any, **kwargs: Any) -> list[Any]:
        return list(filter(*args, **kwargs))

    return listed


def _environment() -> _Environment:
    environment = _Environment(undefined=_Missing, keep_trailing_newline=True)
    known = environment.filters
    environment.filters = {
        **{name: known[name] for name in FILTERS},
        **{name: _listing(known[name]) for name in LISTING},
    }
    environment.globals.clear()
    return environment


_ENVIRONMENT = _environment()
_UNWANTED = {nodes.Call: "calls are", nodes.Pow: "** is", nodes.Mod: "% is"}


@functools.lru_cache(maxsize=512)
def _compile(source: str) -> tuple[frozenset[str], TemplateExpression]:
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"{_short(source)}: it is longer than {MAX_SOURCE} characters")
    try:
        tree = _ENVIRONMENT.parse(f"{{{{ {source} }}}}")
        for kind, what in _UNWANTED.items():
            if tree.find(kind) is not None:
                raise ExpressionError(f"{_short(source)}: {what} not allowed in an expression")
        expression = _ENVIRONMENT.compile_expression(source, undefined_to_none=False)
        return frozenset(name.name for name in tree.find_all(nodes.Name)), expression
    except (TemplateError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError(f"{_short(source)}: {error or type(error).__name__}") from None


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """("text" | "expression", source) in order."""
    if len(text) > MAX_SOURCE:
        raise ExpressionError(f"{_short(text)}: it is longer than {MAX_SOURCE} characters")
    inside: list[str] | None = None
    try:
        for _, kind, token in _ENVIRONMENT.lex(text):
            if kind == "variable_begin":
                inside = []
            elif kind == "variable_end":
                yield "expression", "".join(inside or ()).strip()
                inside = None
            elif inside is not None:
                inside.append(token)
            elif kind == "data":
                yield "text", token
            else:
                raise ExpressionError(
                    f"{_short(text)}: only {{{{ expressions }}}} are allowed, no {token.strip()}"
                )
    except TemplateError as error:
        raise ExpressionError(f"{_short(text)}: {error}") from None
    if inside is not None:
        raise ExpressionError(f"{_short(text)}: a {{{{ is not closed")


def _plain(value: Any) -> Any:
    """A copy of a value as JSON."""
    return json.loads(_bounded(json.dumps(value, allow_nan=False, default=_no_data)))


def _no_data(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)  # raises what is missing
        raise ExpressionError("it has no value")
    raise ExpressionError(f"a {type(value).__name__} is no data")


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _bounded(text: str) -> str:
    if len(text) > MAX_VALUE:
        raise ExpressionError(f"the value is longer than {MAX_VALUE} characters")
    return text


def _short(source: str) -> str:
    line = " ".join(source[:200].split())
    return f"`{line[:80]}...`" if len(line) > 80 else f"`{line}`"
