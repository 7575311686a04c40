"""Finds the parts of a statement that can have failed by themselves, by the class of the exception."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

_ATTRIBUTE = re.compile(r"has no attribute '(\w{1,120})'")
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod)


def failing(statement: ast.stmt, type: str, message: str) -> tuple[ast.AST, ...]:
    """The expressions to ask where a wrong value came from, the likeliest first; the statement's own value
    where the class tells nothing."""
    found = tuple(_parts(statement, type.rpartition(".")[2], message))
    return found or _own(statement)


def _parts(statement: ast.stmt, name: str, message: str) -> Iterator[ast.AST]:
    for node in _walk(statement):
        if name in ("IndexError", "KeyError") and isinstance(node, ast.Subscript):
            if not any(isinstance(each, (ast.Slice, ast.Tuple)) for each in ast.walk(node.slice)):
                yield node.slice
        elif name == "AttributeError" and isinstance(node, ast.Attribute):
            match = _ATTRIBUTE.search(message)
            if match is not None and match[1] == node.attr:
                yield node.value
        elif name == "ZeroDivisionError" and isinstance(node, ast.BinOp) and isinstance(node.op, _DIVISIONS):
            yield node.right
        elif name == "TypeError" and isinstance(node, (ast.BinOp, ast.Compare)):
            yield node


def _own(statement: ast.stmt) -> tuple[ast.AST, ...]:
    value = getattr(statement, "value", None) or getattr(statement, "test", None)
    return (value if isinstance(value, ast.AST) else statement,)


def _walk(statement: ast.stmt) -> Iterator[ast.AST]:
    """The expressions of a statement itself, not those of statements within it."""
    rest: list[ast.AST] = [statement]
    while rest:
        node = rest.pop(0)
        if isinstance(node, ast.stmt) and node is not statement:
            continue
        yield node
        rest.extend(ast.iter_child_nodes(node))
