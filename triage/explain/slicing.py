"""Backwards from an expression to what a person can change: options, keys of config.json, variables, files.

A name is followed through assignments of its function, through the call in the frame before it, through the
attributes that a class sets on itself, and ends where its name is that of a declared setting.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from triage.explain.code import Code, Function, ModuleCode
from triage.explain.declared import Declared, variable_of
from triage.explain.model import EndKind, SourceEnd
from triage.explain.values import text_of

DEEP = 10
MOST_ENDS = 12
MOST_STEPS = 400
SHOWN = 8

CONFIGS = ("hf_config", "hf_text_config", "text_config", "vision_config", "model_config", "config")
"""Names that a model's configuration has in the engines."""

_MACHINE = ("get_device_capability", "device_count", "get_device_properties", "is_available", "total_memory")


@dataclass(frozen=True)
class CodeFrame:
    """A frame of a traceback whose module could be read: the line that ran, within its function."""

    module: ModuleCode
    line: int
    function: Function | None


@dataclass(frozen=True)
class _Place:
    """An expression to follow: where it stands, in which frame (-1: in none), and how it was come to."""

    module: ModuleCode
    function: Function | None
    line: int
    frame: int
    path: tuple[str, ...]
    deep: int = 0


class Slicer:
    """Follows expressions through the frames of a traceback, outermost first."""

    def __init__(self, code: Code, settings: Declared, frames: Sequence[CodeFrame]) -> None:
        self._code = code
        self._settings = settings
        self._frames = frames
        self._seen: set[tuple[str, str, int]] = set()
        self._steps = 0

    def ends(self, node: ast.AST, frame: int) -> tuple[SourceEnd, ...]:
        """What an expression in a frame depends on, in the order in which it is come to."""
        at = self._frames[frame]
        self._seen.clear()
        self._steps = 0
        place = _Place(at.module, at.function, at.line, frame, (_shown(at.module, at.line),))
        found: dict[tuple[str, str], SourceEnd] = {}
        for end in self._follow(node, place):
            found.setdefault((end.kind, end.name), end)
            if len(found) >= MOST_ENDS:
                break
        return tuple(found.values())

    def _follow(self, node: ast.AST, place: _Place) -> Iterator[SourceEnd]:
        self._steps += 1
        key = (place.module.module, text_of(node), place.line)
        if place.deep > DEEP or self._steps > MOST_STEPS or key in self._seen:
            return
        self._seen.add(key)
        variable = variable_of(node)
        if variable:
            yield SourceEnd("environment", variable, path=place.path)
            return
        if isinstance(node, ast.Attribute):
            yield from self._attribute(node, place)
        elif isinstance(node, ast.Name):
            yield from self._name(node, place)
        elif isinstance(node, ast.Call):
            yield from self._call(node, place)
        else:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, (ast.expr, ast.comprehension, ast.keyword)):
                    yield from self._follow(child, place)

    def _call(self, node: ast.Call, place: _Place) -> Iterator[SourceEnd]:
        said = text_of(node.func).rpartition(".")[2]
        if said in _MACHINE:
            yield SourceEnd("machine", said, path=place.path)
            return
        if said == "getattr" and len(node.args) >= 2 and isinstance(node.args[1], ast.Constant):
            owner = text_of(node.args[0])
            end = self._named(str(node.args[1].value), owner, place)
            if end:
                yield end
                return
        if isinstance(node.func, ast.Attribute):
            yield from self._follow(node.func.value, place)
        elif isinstance(node.func, ast.Name):
            yield from self._returned(node.func.id, place)
        for argument in (*node.args, *(each.value for each in node.keywords)):
            yield from self._follow(argument, place)

    def _returned(self, name: str, place: _Place) -> Iterator[SourceEnd]:
        """What a function of the same module returns."""
        for node in place.module.tree.body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
                for each in ast.walk(node):
                    if isinstance(each, ast.Return) and each.value is not None:
                        yield from self._follow(each.value, _step(place, place.module, node, each.lineno, -1))

    def _attribute(self, node: ast.Attribute, place: _Place) -> Iterator[SourceEnd]:
        owner = text_of(node.value)
        if owner == "self":
            yield from self._own(node.attr, place)
            return
        end = self._named(node.attr, owner, place)
        if end:
            yield end
            return
        yield from self._follow(node.value, place)

    def _named(self, name: str, owner: str, place: _Place) -> SourceEnd | None:
        """The setting that an attribute is by its name and that of its owner."""
        last = owner.rpartition(".")[2]
        option = self._settings.options.get(name)
        if last.endswith("args") and option:
            return SourceEnd("option", option.flag, default=option.default, path=place.path)
        is_engine_config = last.endswith("_config") and last not in CONFIGS
        if option and (is_engine_config or last in ("config", "model_config")):
            return SourceEnd("option", option.flag, default=option.default, path=place.path)
        if last in CONFIGS or last.endswith("hf_config"):
            return SourceEnd("config", f"config.json:{name}", path=place.path)
        return None

    def _own(self, name: str, place: _Place) -> Iterator[SourceEnd]:
        """What a class sets its attribute to; by its name, where it does not."""
        owner = place.module.class_of(place.function) if place.function else None
        option = self._settings.options.get(name)
        if option and owner is not None and owner.name.endswith("Args"):
            yield SourceEnd("option", option.flag, default=option.default, path=place.path)
            return
        found = False
        for method in owner.body if owner else ():
            if not isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            for each in ast.walk(method):
                if isinstance(each, (ast.Assign, ast.AnnAssign)) and each.value is not None:
                    targets = each.targets if isinstance(each, ast.Assign) else [each.target]
                    if any(text_of(target) == f"self.{name}" for target in targets):
                        found = True
                        frame = self._frame_of(place.module, method, place.frame)
                        yield from self._follow(
                            each.value, _step(place, place.module, method, each.lineno, frame)
                        )
        if not found:
            yield from self._by_name(name, place)

    def _by_name(self, name: str, place: _Place) -> Iterator[SourceEnd]:
        option = self._settings.options.get(name)
        if option:
            yield SourceEnd("option", option.flag, default=option.default, path=place.path)

    def _name(self, node: ast.Name, place: _Place) -> Iterator[SourceEnd]:
        name, function = node.id, place.function
        if function is None:
            return
        assigned = _assigned(function, name, place.line)
        if assigned is not None:
            value, line = assigned
            yield from self._follow(value, _step(place, place.module, function, line, place.frame))
            return
        if name in _parameters(function):
            given = self._given(function, name, place)
            if given is None:
                yield from self._by_name(name, place)
                return
            value, frame = given
            caller = self._frames[frame]
            yield from self._follow(value, _step(place, caller.module, caller.function, caller.line, frame))

    def _given(self, function: Function, name: str, place: _Place) -> tuple[ast.expr, int] | None:
        """The argument with which the frame before called the function, and the number of that frame."""
        if place.frame < 1:
            return None
        for number in range(place.frame - 1, max(place.frame - 4, -1), -1):
            caller = self._frames[number]
            for call in _calls(caller):
                argument = _argument(call, function, name)
                if argument is not None:
                    return argument, number
        return None

    def _frame_of(self, module: ModuleCode, function: Function, default: int) -> int:
        for number in range(len(self._frames) - 1, -1, -1):
            frame = self._frames[number]
            if frame.module is module and frame.function is function:
                return number
        return -1 if default >= 0 else default


def _step(place: _Place, module: ModuleCode, function: Function | None, line: int, frame: int) -> _Place:
    shown = _shown(module, line)
    path = place.path if shown in place.path else (*place.path, shown)
    return replace(
        place,
        module=module,
        function=function,
        line=line,
        frame=frame,
        path=path[:SHOWN],
        deep=place.deep + 1,
    )


def _shown(module: ModuleCode, line: int) -> str:
    return f"{module.module.replace('.', '/')}.py:{line} {module.line(line)[:160]}"


def _assigned(function: Function, name: str, before: int) -> tuple[ast.expr, int] | None:
    """The value that a name was given last before a line, or what a loop takes it from."""
    best: tuple[ast.expr, int] | None = None
    for node in ast.walk(function):
        value: ast.expr | None = None
        if (isinstance(node, ast.Assign) and any(_binds(target, name) for target in node.targets)) or (
            isinstance(node, (ast.AnnAssign, ast.AugAssign, ast.NamedExpr)) and _binds(node.target, name)
        ):
            value = node.value
        elif isinstance(node, (ast.For, ast.comprehension)) and _binds(node.target, name):
            value = node.iter
        elif isinstance(node, ast.withitem) and node.optional_vars and _binds(node.optional_vars, name):
            value = node.context_expr
        if value is not None and value.lineno < before and (best is None or value.lineno > best[1]):
            best = value, value.lineno
    return best


def _binds(target: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in ast.walk(target))


def _parameters(function: Function) -> list[str]:
    given = function.args
    return [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]


def _calls(frame: CodeFrame) -> Iterator[ast.Call]:
    statement = frame.module.statement_at(frame.line)
    for node in ast.walk(statement) if statement is not None else ():
        if isinstance(node, ast.Call):
            yield node


def _argument(call: ast.Call, function: Function, name: str) -> ast.expr | None:
    """The argument of a call for a parameter, where the call can be one of that function."""
    called = text_of(call.func).rpartition(".")[2]
    is_made = function.name in ("__init__", "__new__", "__call__", "forward", "wrapper")
    if called != function.name and not is_made:
        return None
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = _parameters(function)
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    if name in names:
        place = names.index(name)
        if place < len(call.args) and not any(
            isinstance(each, ast.Starred) for each in call.args[: place + 1]
        ):
            return call.args[place]
    return None


def kinds() -> tuple[EndKind, ...]:
    """The kinds of ends, best first: what a person changes most easily."""
    return ("option", "config", "environment", "file", "version", "machine")
