"""Runs one real function of a released module by itself: what it calls is a mock, what it does is its own."""

from __future__ import annotations
import __future__

import ast
import builtins
import types
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

from tests.patching.constructor import Kind
from triage.patching.model import SourceFile


class PPMissingLayer:
    """The placeholder for a layer of another stage: it has no parts."""

    def __init__(self, **_: Any) -> None:
        pass

    def __call__(self, *args: Any, **options: Any) -> Any:
        return args[0]


class Names(dict[str, Any]):
    """A module's globals, in which every name that is not given is a mock."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        is_class = name[0].isupper() and not name.isupper()
        found = Kind(name, (MagicMock,), {}) if is_class else MagicMock(name=name)
        self[name] = found
        return found


def function(file: SourceFile, qualified: str, **names: Any) -> Callable[..., Any]:
    """A function or method of a module; the class that it is in has no bases and nothing else."""
    tree = ast.parse(file.data)
    owner, _, name = qualified.rpartition(".")
    scope: ast.AST = tree if not owner else named(tree, owner, ast.ClassDef)
    found = named(scope, name, ast.FunctionDef)
    found.decorator_list = []
    body: list[ast.stmt] = [found]
    if owner:
        body = [ast.ClassDef(owner, [], [], [found], [])]
    module = ast.fix_missing_locations(ast.Module(body, []))
    space = Names({"PPMissingLayer": PPMissingLayer, "__name__": file.module, **names})
    flags = __future__.annotations.compiler_flag
    exec(compile(module, file.path, "exec", flags, dont_inherit=True), space)
    result = getattr(space[owner], name) if owner else space[name]
    assert isinstance(result, types.FunctionType)
    return result


def named(scope: ast.AST, name: str, kind: type[Any]) -> Any:
    (found,) = (node for node in ast.walk(scope) if isinstance(node, kind) and node.name == name)
    return found
