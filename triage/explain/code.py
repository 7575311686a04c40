"""Modules of a tree as syntax: functions by line, statements with what stands around them."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from triage.patching.model import SourceTree
from triage.patching.source import Unparsable, parse_ast

Function = ast.FunctionDef | ast.AsyncFunctionDef
MOST_FILES = 200
MOST_SECONDS = 8.0
"""That reading and parsing may take together; a file that was begun is read to its end."""


@dataclass
class ModuleCode:
    """One module, parsed; `parents` is filled when it is first asked for."""

    module: str
    path: str
    tree: ast.Module
    lines: list[str]
    _parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def parent(self, node: ast.AST) -> ast.AST | None:
        if not self._parents:
            for one in ast.walk(self.tree):
                for child in ast.iter_child_nodes(one):
                    self._parents[child] = one
        return self._parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, innermost first."""
        parent = self.parent(node)
        while parent is not None:
            yield parent
            parent = self.parent(parent)

    def line(self, number: int) -> str:
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""

    def function_at(self, line: int) -> Function | None:
        """The innermost function that a line stands in."""
        best: Function | None = None
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                within = first <= line <= (node.end_lineno or first)
                if within and (best is None or node.lineno >= best.lineno):
                    best = node
        return best

    def class_of(self, function: ast.AST) -> ast.ClassDef | None:
        return next((each for each in self.around(function) if isinstance(each, ast.ClassDef)), None)

    def statement_at(self, line: int) -> ast.stmt | None:
        """The innermost statement that a line belongs to."""
        best: ast.stmt | None = None
        for node in ast.walk(self.tree):
            if not (isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno)):
                continue
            if best is None or node.lineno > best.lineno or _smaller(node, best):
                best = node
        return best


def _smaller(one: ast.stmt, other: ast.stmt) -> bool:
    return one.lineno == other.lineno and (one.end_lineno or 0) <= (other.end_lineno or 0)


class Code:
    """The modules of a tree, each read and parsed once, within `MOST_FILES` and `MOST_SECONDS`."""

    def __init__(self, tree: SourceTree) -> None:
        self._tree = tree
        self._modules: dict[str, ModuleCode | None] = {}
        self._left = MOST_SECONDS
        self.notes: list[str] = []

    def module(self, name: str) -> ModuleCode | None:
        """A module; None where it is not there, or no Python, as `notes` then tells. Raises Unanswered."""
        if name not in self._modules:
            if self._left <= 0 or len(self._modules) >= MOST_FILES:
                self.notes.append(f"{name} was not read: enough was read before it")
                return None
            started = time.monotonic()
            try:
                self._modules[name] = self._read(name)
            finally:
                self._left -= time.monotonic() - started
        return self._modules[name]

    def _read(self, name: str) -> ModuleCode | None:
        file = self._tree.read(name)
        if file is None:
            return None
        try:
            tree = parse_ast(file.data)
        except Unparsable as error:
            self.notes.append(f"{file.path} could not be read as Python: {error}")
            return None
        return ModuleCode(name, file.path, tree, file.data.decode("utf-8", "replace").splitlines())
