"""Evaluates expressions and templates of playbooks, from data to data.

An expression can use keys, items, operators, tests and a few filters. It has no attributes, calls or
statements, so it cannot leave its sandbox or make much out of little. The result of an expression is data and
is never evaluated as a template again.
"""

from __future__ import annotations

import functools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import ChainableUndefined, StrictUndefined, TemplateError, Undefined, nodes
from jinja2.environment import TemplateExpression
from jinja2.exceptions import SecurityError
from jinja2.filters import FILTERS as DEFAULT_FILTERS
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_SOURCE = 4096  # characters of one template
MAX_VALUE = 1 << 20  # characters of one value, as JSON
MAX_WORK = 16 * MAX_VALUE  # characters and items that filters, tests and operators of one expression may see
MAX_DIGITS = 20  # after the point, of `round`
FILTERS = (
    *("default", "first", "last", "length", "join", "list", "lower", "upper", "trim", "string"),
    *("int", "float", "abs", "round", "min", "max", "sort", "unique"),
)
# Jinja returns generators for these, which are always true
LISTING = ("map", "select", "reject", "selectattr", "rejectattr")


class ExpressionError(Exception):
    """An expression is invalid, or has no value here; the message says why."""


def expression_names(source: str) -> frozenset[str]:
    """Return the names that an expression needs. Raises ExpressionError for invalid text."""
    return _compile(source)[0]


def template_names(value: Any) -> frozenset[str]:
    """Return the names that the `{{ expressions }}` in a text or list need. Raises ExpressionError."""
    if isinstance(value, list):
        return frozenset[str]().union(*map(template_names, value))
    if not isinstance(value, str):
        return frozenset()
    found = (expression_names(part) for kind, part in _parts(value) if kind == "expression")
    return frozenset[str]().union(*found)


def evaluate(source: str, values: Mapping[str, Any]) -> Any:
    """Return the value of an expression as JSON. Raises ExpressionError, also if a name or key is missing."""
    expression = _compile(source)[1]
    _work.left = MAX_WORK
    try:
        return _plain(expression(values))
    except Exception as error:  # an expression over foreign data may raise anything
        raise ExpressionError(f"{_short(source)}: {error or type(error).__name__}") from None


def render(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a text or list with its expressions replaced, as JSON. Raises ExpressionError.

    A text that consists of one expression becomes the value of that expression, of any type.
    """
    if isinstance(value, list):
        return [render(item, values) for item in value]
    if not isinstance(value, str):
        return value
    parts = list(_parts(value))
    if [kind for kind, _ in parts] == ["expression"]:
        return evaluate(parts[0][1], values)
    return _together(part if kind == "text" else _spelled(evaluate(part, values)) for kind, part in parts)


class _Missing(ChainableUndefined, StrictUndefined):
    """An undefined value: `a.b.c | default(x)` is x wherever the chain breaks, and any other use of it is an
    error.
    """


class _Environment(SandboxedEnvironment):
    intercepted_binops = frozenset({"*", "+"})

    def getattr(self, obj: Any, attribute: str) -> Any:
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        try:
            return obj[argument]
        except (TypeError, LookupError):
            return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        if operator == "*" and (isinstance(left, _SEQUENCE) or isinstance(right, _SEQUENCE)):
            raise SecurityError(f"{operator} is for numbers")
        _charge(left, right)
        return super().call_binop(context, operator, left, right)

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        return super()._generate(_Joined().visit(source), name, filename, defer_init)


class _Joined(NodeTransformer):
    """`a ~ b` as `[a, b] | join`: what is put together is counted in one place."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        parts = [self.visit(part) for part in node.nodes]
        parted = nodes.List(parts, lineno=node.lineno)
        return nodes.Filter(parted, "join", [], [], None, None, lineno=node.lineno)


class _Work(threading.local):
    left = MAX_WORK


_work = _Work()
_SEQUENCE = (str, list, tuple)


def _charge(*values: Any) -> None:
    """Count what an operation sees. Raises SecurityError once an expression has seen too much."""
    pending = list(values)
    while pending:
        value = pending.pop()
        _work.left -= len(value) + 1 if isinstance(value, (str, list, tuple, dict)) else 1
        if _work.left < 0:
            raise SecurityError("it makes too much out of its values")
        if isinstance(value, (list, tuple)):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()


def _charged(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter or test whose arguments and result are counted."""

    @functools.wraps(function)
    def charged(*args: Any, **kwargs: Any) -> Any:
        _charge(*args, *kwargs.values())
        result = function(*args, **kwargs)
        _charge(result)
        return result

    return charged


def _join(value: Any, d: str = "", attribute: Any = None) -> str:
    if attribute is not None:
        raise SecurityError("join takes no attribute; map it first")
    between, total, parts = str(d), 0, []
    for item in value:
        _charge(item, between)
        parts.append(str(item))
        total += len(parts[-1]) + len(between)
        if total > MAX_VALUE + len(between):
            raise SecurityError(f"the value is longer than {MAX_VALUE} characters")
    return between.join(parts)


def _round(value: Any, precision: int = 0, method: Any = "common") -> Any:
    if not -MAX_DIGITS <= precision <= MAX_DIGITS:
        raise SecurityError(f"round is to {MAX_DIGITS} digits at most")
    return DEFAULT_FILTERS["round"](value, precision, method)


def _listing(filter: Callable[..., Any]) -> Callable[..., list[Any]]:
    @functools.wraps(filter)
    def listed(*args: Any, **kwargs: Any) -> list[Any]:
        return list(filter(*args, **kwargs))

    return listed


def _environment() -> _Environment:
    environment = _Environment(undefined=_Missing, keep_trailing_newline=True)
    known: dict[str, Any] = environment.filters
    tests: dict[str, Any] = environment.tests
    environment.filters = {
        **{name: _charged(known[name]) for name in FILTERS},
        **{name: _charged(_listing(known[name])) for name in LISTING},
        "join": _charged(_join),
        "round": _charged(_round),
    }
    environment.tests = {name: _charged(test) for name, test in tests.items()}
    environment.globals.clear()
    return environment


_ENVIRONMENT = _environment()
_UNWANTED = {nodes.Call: "calls are", nodes.Pow: "** is", nodes.Mod: "% is"}


@functools.lru_cache(maxsize=512)
def _compile(source: str) -> tuple[frozenset[str], TemplateExpression]:
    if len(source) > MAX_SOURCE:
        raise ExpressionError(f"{_short(source)}: it is longer than {MAX_SOURCE} characters")
    _work.left = MAX_WORK  # what is constant is computed now
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
    """Return the parts of a text as ("text" | "expression", source), in order."""
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
    encoder = json.JSONEncoder(allow_nan=False, default=_no_data)
    return json.loads(_together(encoder.iterencode(value)))


def _no_data(value: Any) -> Any:
    if isinstance(value, Undefined):
        str(value)  # raises for a missing value
        raise ExpressionError("it has no value")
    raise ExpressionError(f"a {type(value).__name__} is no data")


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _together(parts: Iterable[str]) -> str:
    found, left = [], MAX_VALUE
    for part in parts:
        left -= len(part)
        if left < 0:
            raise ExpressionError(f"the value is longer than {MAX_VALUE} characters")
        found.append(part)
    return "".join(found)


def _short(source: str) -> str:
    line = " ".join(source[:200].split())
    return f"`{line[:80]}...`" if len(line) > 80 else f"`{line}`"
