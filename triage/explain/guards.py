"""The conditions that lead to a statement within its function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from triage.explain.code import Function, ModuleCode

MOST = 12
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class PathCondition:
    """A test, and whether it must have been true for the statement to be reached."""

    test: ast.expr
    wanted: bool
    line: int

    @property
    def code(self) -> str:
        said = " ".join(ast.unparse(self.test).split())
        return said if self.wanted else f"not ({said})"


def conditions(
    module: ModuleCode, function: Function | None, statement: ast.stmt
) -> tuple[PathCondition, ...]:
    """The conditions of a statement, the nearest first: its own, those around it, and earlier ways out."""
    return tuple(_conditions(module, function, statement))[:MOST]


def _conditions(
    module: ModuleCode, function: Function | None, statement: ast.stmt
) -> Iterator[PathCondition]:
    if isinstance(statement, ast.Assert):
        yield PathCondition(statement.test, False, statement.lineno)
    inner: ast.AST = statement
    for outer in module.around(statement):
        if isinstance(outer, (ast.If, ast.While)):
            in_body = any(inner is each for each in outer.body)
            in_else = any(inner is each for each in outer.orelse)
            if in_body or in_else:
                yield PathCondition(outer.test, in_body, outer.lineno)
        for block in _blocks(outer):
            if any(inner is each for each in block):
                yield from _ways_out(block, inner)
        if outer is function:
            return
        inner = outer


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield block


def _ways_out(block: list[ast.stmt], inner: ast.AST) -> Iterator[PathCondition]:
    """Yield the ways out of a block that were not taken: `if` statements that leave it, assertions."""
    before = []
    for each in block:
        if each is inner:
            break
        before.append(each)
    for each in reversed(before):
        if isinstance(each, ast.If) and not each.orelse and each.body and isinstance(each.body[-1], _LEAVES):
            yield PathCondition(each.test, False, each.lineno)
        elif isinstance(each, ast.Assert):
            yield PathCondition(each.test, True, each.lineno)
