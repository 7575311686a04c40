"""A fault and the source that raised it -> why: the site, its conditions with this run's values, the ends.

Sources are read as hostile: what is too large, too deep or no Python is left out and told. Nothing of them is
executed.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from triage.evidence.model import Unanswered
from triage.explain.code import Code, ModuleCode
from triage.explain.declared import Declared, declared
from triage.explain.failing import failing
from triage.explain.guards import PathCondition, conditions
from triage.explain.model import Explained, Guard, RaiseSite, SiteKind, SourceEnd
from triage.explain.slicing import CodeFrame, Slicer, kinds
from triage.explain.templates import fixed, log_parts, parts_of, values_in
from triage.explain.values import UNKNOWN, compute, literal, text_of
from triage.logs.faults.frames import module_tail
from triage.logs.model import Fault, Frame
from triage.patching.model import SourceTree

MOST_FRAMES = 24
MOST_GUARDS = 6
LOGS = ("error", "exception", "critical", "fatal", "warning")
TRIED = 64
"""Whole numbers that are tried for a value that makes a condition false."""


def explain(
    fault: Fault, tree: SourceTree, settings: Sequence[str], run: Mapping[str, str], package: str = ""
) -> Explained | None:
    """Why a fault was raised, from the source of its frames; None where no frame of it can be read.

    `settings` are the modules that declare the engine's options and variables, `run` the values of this run
    by the name of the option's attribute (`tp_size`). `package` limits the frames to one package.
    """
    code = Code(tree)
    frames = _readable(fault.frames[-MOST_FRAMES:], code, package)
    if not frames:
        return None
    site, statement = _site(frames[-1], fault.message)
    if statement is None:
        return None
    asked = failing(statement, fault.type, fault.message) if site.kind == "expression" else (statement,)
    return _explained(code, frames, site, statement, asked, _declared(code, settings), run)


def explain_line(
    module: ModuleCode, line: int, code: Code, settings: Sequence[str], run: Mapping[str, str]
) -> Explained | None:
    """Why a line of a module would be reached, without a log; None where no statement stands there."""
    frame = CodeFrame(module, line, module.function_at(line))
    site, statement = _site(frame, "")
    if statement is None:
        return None
    return _explained(code, [frame], site, statement, (statement,), _declared(code, settings), run)


def _declared(code: Code, settings: Sequence[str]) -> Declared:
    try:
        return declared(code, settings)
    except Unanswered as error:
        code.notes.append(f"the engine's options are not known: {error}")
        return Declared({}, frozenset())


def _readable(frames: Sequence[Frame], code: Code, package: str) -> list[CodeFrame]:
    """The frames whose line is in the tree, as the traceback shows it; those of libraries are left out."""
    found = []
    for frame in frames:
        tail = module_tail(frame.file)
        if not tail.endswith(".py") or (package and not tail.startswith(f"{package}/")):
            continue
        name = tail[:-3].replace("/", ".").removesuffix(".__init__")
        try:
            module = code.module(name)
        except Unanswered as error:
            code.notes.append(f"{name} could not be read: {error}")
            continue
        if module is None:
            continue
        line = _line_of(frame, module)
        if line:
            found.append(CodeFrame(module, line, module.function_at(line)))
        else:
            code.notes.append(f"{name}:{frame.line} is another line in this source: it is of another release")
    return found


def _line_of(frame: Frame, module: ModuleCode) -> int:
    """The line of a frame in a module; near by, where the code moved; 0 where it is not there."""
    wanted = frame.code.strip()
    if not wanted:
        return frame.line if frame.line <= len(module.lines) else 0
    near = sorted(range(max(frame.line - 300, 1), frame.line + 300), key=lambda line: abs(line - frame.line))
    for line in near:
        said = module.line(line)
        if said and (said == wanted or (len(wanted) > 20 and said.startswith(wanted[:60]))):
            return line
    return 0


def _site(frame: CodeFrame, message: str) -> tuple[RaiseSite, ast.stmt | None]:
    module = frame.module
    statement = module.statement_at(frame.line)
    name = frame.function.name if frame.function else "<module>"
    kind: SiteKind = "expression"
    values: Mapping[str, str] = {}
    if isinstance(statement, ast.Raise):
        kind = "raise"
        values = _message_values(statement.exc, message)
    elif isinstance(statement, ast.Assert):
        kind = "assert"
        values = (values_in(parts_of(statement.msg), message) or {}) if statement.msg is not None else {}
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        if isinstance(called, ast.Attribute) and called.attr in LOGS:
            kind = "log"
            values = values_in(log_parts(statement.value), message) or {}
    said = (
        " ".join(ast.unparse(statement).split())[:300] if statement is not None else module.line(frame.line)
    )
    return RaiseSite(module.path, frame.line, name, kind, said, values), statement


def _message_values(raised: ast.expr | None, message: str) -> Mapping[str, str]:
    if not isinstance(raised, ast.Call) or not raised.args:
        return {}
    parts = parts_of(raised.args[0])
    return (values_in(parts, message) or {}) if fixed(parts) else {}


def _explained(
    code: Code,
    frames: Sequence[CodeFrame],
    site: RaiseSite,
    statement: ast.stmt,
    parts: Sequence[ast.AST],
    settings: Declared,
    run: Mapping[str, str],
) -> Explained:
    last = len(frames) - 1
    frame = frames[last]
    slicer = Slicer(code, settings, frames)
    told = conditions(frame.module, frame.function, statement)[:MOST_GUARDS]
    tests: list[ast.AST] = [each.test for each in told[:3]]
    asked = [*parts, *tests] if site.kind == "expression" else [*tests, *parts]
    ends: dict[tuple[str, str], SourceEnd] = {}
    depends: dict[int, tuple[SourceEnd, ...]] = {}
    for number, node in enumerate(asked):
        try:
            depends[number] = slicer.ends(node, last)
        except Unanswered as error:
            code.notes.append(str(error))
            continue
        for end in depends[number]:
            ends.setdefault((end.kind, end.name), end)
    named = _named_in(site.values, frame, slicer, last)
    guards = tuple(_guard(each, site, run, settings) for each in told)
    found = [_with_value(end, run, settings) for end in ends.values()]
    found = [_with_nearest(end, told, site, run, settings) for end in found]
    return Explained(site, guards, _ranked(found, named, depends), tuple(dict.fromkeys(code.notes)))


def _named_in(values: Mapping[str, str], frame: CodeFrame, slicer: Slicer, last: int) -> set[str]:
    """The ends of the expressions that the message itself gives the values of."""
    named: set[str] = set()
    for text in values:
        try:
            node = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        for each in ast.walk(node):
            if hasattr(each, "lineno"):
                each.lineno = frame.line
        try:
            named.update(end.name for end in slicer.ends(node, last))
        except Unanswered:
            continue
    return named


def _ranked(
    ends: Sequence[SourceEnd], named: set[str], depends: Mapping[int, Sequence[SourceEnd]]
) -> tuple[SourceEnd, ...]:
    """First what the message names, then what the nearest condition depends on; options before the rest."""
    order = kinds()
    near = {(end.kind, end.name): number for number, found in reversed([*depends.items()]) for end in found}

    def key(end: SourceEnd) -> tuple[bool, int, bool, int, int]:
        is_set = bool(end.value) and end.value != end.default
        condition = near.get((end.kind, end.name), 99)
        return (end.name not in named, condition, not is_set, order.index(end.kind), len(end.path))

    return tuple(sorted(ends, key=key))


def _guard(condition: PathCondition, site: RaiseSite, run: Mapping[str, str], settings: Declared) -> Guard:
    known = _known(site.values, run, settings)
    value = compute(condition.test, known)
    filled = _filled(condition.test, known)
    holds = None if value is UNKNOWN else bool(value) is condition.wanted
    if not condition.wanted:
        filled = f"not ({filled})"
    return Guard(condition.line, condition.code, filled, holds)


def _known(values: Mapping[str, str], run: Mapping[str, str], settings: Declared) -> Any:
    """What is known of a part of a condition: from the message, else the run's value of an option."""

    def known(node: ast.AST) -> Any:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
            said = values.get(text_of(node))
            if said is not None:
                return literal(said)
        if isinstance(node, ast.Attribute):
            owner = text_of(node.value).rpartition(".")[2]
            if (
                node.attr in run
                and (owner.endswith("args") or owner == "self")
                and node.attr in settings.options
            ):
                return literal(run[node.attr])
        return UNKNOWN

    return known


def _filled(test: ast.expr, known: Any) -> str:
    class Fill(ast.NodeTransformer):
        def generic_visit(self, node: ast.AST) -> ast.AST:
            value = known(node)
            if value is not UNKNOWN and isinstance(value, (int, float, str, bool, type(None))):
                return ast.copy_location(ast.Constant(value=value), node)
            return super().generic_visit(node)

    try:
        copy = ast.parse(ast.unparse(test), mode="eval").body
        return text_of(Fill().visit(copy))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text_of(test)


def _with_value(end: SourceEnd, run: Mapping[str, str], settings: Declared) -> SourceEnd:
    if end.kind != "option":
        return end
    names = [name for name, option in settings.options.items() if option.flag == end.name]
    value = next((run[name] for name in names if name in run), "")
    return replace(end, value=value)


def _with_nearest(
    end: SourceEnd, told: Sequence[PathCondition], site: RaiseSite, run: Mapping[str, str], settings: Declared
) -> SourceEnd:
    """The values of a number that make the nearest condition false, the nearest first."""
    if end.kind != "option" or not end.value.isdecimal() or not told:
        return end
    names = {name for name, option in settings.options.items() if option.flag == end.name}
    condition, current = told[0], int(end.value)
    known = _known(site.values, run, settings)

    def with_number(number: int) -> Any:
        def replaced(node: ast.AST) -> Any:
            is_it = isinstance(node, ast.Attribute) and node.attr in names
            is_it = is_it or (isinstance(node, ast.Name) and node.id in names)
            return number if is_it else known(node)

        return compute(condition.test, replaced)

    if with_number(current) is UNKNOWN or bool(with_number(current)) is not condition.wanted:
        return end
    fits = [
        number
        for number in range(1, TRIED + 1)
        if (value := with_number(number)) is not UNKNOWN and bool(value) is not condition.wanted
    ]
    nearest = sorted(fits, key=lambda number: (abs(number - current), -number))[:4]
    return replace(end, nearest=tuple(map(str, nearest)))
