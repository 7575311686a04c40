"""Expressions computed with known values: arithmetic, comparisons and logic over numbers, texts and lists.

Nothing is executed: the syntax tree is walked, and what is not closed gives UNKNOWN.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

MOST = 1 << 40
"""The largest number that is computed with, and the longest text is `LONGEST`."""
LONGEST = 10_000
DEEP = 60


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()

_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: lambda one, other: one is other or one == other,
    ast.IsNot: lambda one, other: not (one is other or one == other),
    ast.In: lambda one, other: one in other,
    ast.NotIn: lambda one, other: one not in other,
}


def text_of(node: ast.AST) -> str:
    """An expression as code, on one line."""
    try:
        return " ".join(ast.unparse(node).split())
    except (RecursionError, ValueError):
        return ""


def literal(text: str) -> Any:
    """A value as a log or a command line writes it: a number, a truth value, None, or the text itself."""
    known = {"True": True, "False": False, "None": None, "true": True, "false": False}
    stripped = text.strip().strip("'\"")
    if stripped in known:
        return known[stripped]
    for convert in (int, float):
        try:
            return convert(stripped) if len(stripped) < 30 else stripped
        except ValueError:
            continue
    return stripped


def compute(node: ast.AST, known: Callable[[ast.AST], Any], deep: int = 0) -> Any:
    """The value of an expression, UNKNOWN where it is not closed. `known` gives what is known of a part."""
    if deep > DEEP:
        return UNKNOWN
    given = known(node)
    if given is not UNKNOWN:
        return given

    def part(child: ast.AST) -> Any:
        return compute(child, known, deep + 1)

    try:
        return _computed(node, part)
    except (TypeError, ValueError, ArithmeticError, RecursionError):
        return UNKNOWN


def _computed(node: ast.AST, part: Callable[[ast.AST], Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, (int, float, str, bool, type(None))) else UNKNOWN
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        items = [part(each) for each in node.elts[:200]]
        return UNKNOWN if UNKNOWN in items else tuple(items)
    if isinstance(node, ast.UnaryOp):
        value = part(node.operand)
        if value is UNKNOWN:
            return UNKNOWN
        return (
            not value
            if isinstance(node.op, ast.Not)
            else -value
            if isinstance(node.op, ast.USub)
            else UNKNOWN
        )
    if isinstance(node, ast.BoolOp):
        return _logic(isinstance(node.op, ast.And), [part(each) for each in node.values])
    if isinstance(node, ast.BinOp):
        return _arithmetic(node.op, part(node.left), part(node.right))
    if isinstance(node, ast.Compare):
        values = [part(node.left), *map(part, node.comparators)]
        if UNKNOWN in values or any(type(op) not in _COMPARE for op in node.ops):
            return UNKNOWN
        pairs = zip(node.ops, values, values[1:], strict=False)
        return all(_COMPARE[type(op)](one, other) for op, one, other in pairs)
    if isinstance(node, ast.IfExp):
        test = part(node.test)
        return UNKNOWN if test is UNKNOWN else part(node.body if test else node.orelse)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        value = part(node.args[0]) if node.args else UNKNOWN
        return len(value) if isinstance(value, (str, tuple)) else UNKNOWN
    return UNKNOWN


def _logic(is_and: bool, values: list[Any]) -> Any:
    if any(value is not UNKNOWN and bool(value) is not is_and for value in values):
        return not is_and
    return UNKNOWN if any(value is UNKNOWN for value in values) else is_and


def _arithmetic(op: ast.operator, left: Any, right: Any) -> Any:
    if left is UNKNOWN or right is UNKNOWN or type(op) not in _BINARY:
        return UNKNOWN
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    texts = isinstance(op, ast.Add) and isinstance(left, str) and isinstance(right, str)
    if not (numbers or texts):
        return UNKNOWN
    value = _BINARY[type(op)](left, right)
    too_large = abs(value) > MOST if numbers else len(value) > LONGEST
    return UNKNOWN if too_large else value
