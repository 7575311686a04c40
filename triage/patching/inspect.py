"""What classes of an installed package do, read from syntax: attributes they set, buffers they index.

Base classes are followed through imports, as far as the tree can read them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from triage.evidence.model import Unanswered
from triage.patching.model import Check, Site, SourceFile, SourceTree
from triage.patching.source import Unparsable, parse_ast

Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPE = (*_FUNCTION, ast.ClassDef, ast.Lambda)
_PLAIN_BASES = {"object", "ABC", "Protocol", "Generic"}  # set no attributes of their own
_MAX_HOPS = 8  # imports followed to find a name
_MAX_METHODS = 200  # followed from one method


@dataclass(frozen=True)
class ClassSource:
    """A class, and the file that defines it."""

    file: SourceFile
    node: ast.ClassDef

    @property
    def name(self) -> str:
        return self.node.name

    def method(self, name: str) -> Function | None:
        """The class's own method of that name; the last one counts."""
        found = [node for node in self.node.body if isinstance(node, _FUNCTION) and node.name == name]
        return found[-1] if found else None

    def site(self, node: ast.expr | ast.stmt) -> Site:
        """Return where a node of the class stands; for a class or function, its first line."""
        last = node.lineno if isinstance(node, _SCOPE) else node.end_lineno or node.lineno
        lines = self.file.data.decode("utf-8-sig", "backslashreplace").splitlines()
        return Site(self.file.path, node.lineno, last, "\n".join(lines[node.lineno - 1 : last]))


@dataclass(frozen=True)
class Lineage:
    """A class and its bases in the order in which Python looks a name up.

    `unknown` names bases that the tree does not hold.
    """

    classes: tuple[ClassSource, ...]
    unknown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.classes[0].name

    def method(self, name: str, after: int = -1) -> tuple[int, Function] | None:
        """The first definition of a method past a place in the order, and its own place."""
        for index, owner in enumerate(self.classes[after + 1 :], after + 1):
            if (node := owner.method(name)) is not None:
                return index, node
        return None


def find_class(tree: SourceTree, modules: Iterable[str], name: str) -> ClassSource | None:
    """The class of that name in the first module that defines or imports it. Raises Unanswered."""
    for module in modules:
        found = _resolve(tree, module, name, _MAX_HOPS)
        if found is not None:
            return found
    return None


def class_at(file: SourceFile, line: int) -> ClassSource | None:
    """The innermost class around a line, 1-based. Raises Unanswered."""
    found = None
    pending: list[ast.AST] = [*_parsed(file).body]
    while pending:
        node = pending.pop()
        if getattr(node, "lineno", line) <= line <= getattr(node, "end_lineno", line):
            found = node if isinstance(node, ast.ClassDef) else found
            pending.extend(ast.iter_child_nodes(node))
    return None if found is None else ClassSource(file, found)


def subclasses(tree: SourceTree, modules: Iterable[str], base: ClassSource) -> tuple[ClassSource, ...]:
    """The classes in `modules` that derive from `base`, in the order they stand. Raises Unanswered."""
    found = []
    for module in dict.fromkeys(modules):
        file = tree.read(module)
        if file is None:
            continue
        for node in _definitions(_parsed(file).body):
            if isinstance(node, ast.ClassDef) and node is not base.node:
                owner = ClassSource(file, node)
                if any(parent.node is base.node for parent in lineage(tree, owner).classes):
                    found.append(owner)
    return tuple(found)


def lineage(tree: SourceTree, owner: ClassSource) -> Lineage:
    """A class and its bases, each once and before its own bases. Raises Unanswered."""
    order: list[ClassSource] = []
    unknown: list[str] = []

    def visit(item: ClassSource, path: frozenset[int]) -> None:
        order.append(item)
        for expression in item.node.bases:
            name = _dotted(expression)
            parent = _resolve(tree, item.file.module, name, _MAX_HOPS) if name else None
            if parent is not None and id(parent.node) not in path and len(order) < 100:
                visit(parent, path | {id(parent.node)})
            elif parent is None and name.rpartition(".")[2] not in _PLAIN_BASES:
                unknown.append(name or ast.unparse(expression))

    visit(owner, frozenset({id(owner.node)}))
    # A base that several classes share comes after all of them: keep its last place.
    last = {id(item.node): index for index, item in enumerate(order)}
    kept = tuple(item for index, item in enumerate(order) if last[id(item.node)] == index)
    return Lineage(kept, tuple(dict.fromkeys(unknown)))


def has_attribute(tree: SourceTree, owner: ClassSource, attribute: str) -> Check:
    """Does an instance of the class have the attribute once it is constructed?

    It has when the class body, a property, or `__init__` with all that it calls on `self` and
    `super()` sets it: a base that sets it in an `__init__` that is never called does not count.
    `holds` is None when only a base that the tree does not hold could set it. Raises Unanswered.
    """
    line = lineage(tree, owner)
    for place in line.classes:
        for statement in place.node.body:
            if _binds(statement, attribute):
                return Check(_gets(line, place, attribute, "defines"), True, (place.site(statement),))
    found = next(_settings(line, "__init__", -1, attribute, set()), None)
    if found is not None:
        place, node = found
        return Check(_gets(line, place, attribute, "assigns"), True, (place.site(node),))
    here = (owner.site(owner.node),)
    if line.unknown:
        bases = ", ".join(line.unknown)
        return Check(f"whether {owner.name} has {attribute} depends on {bases}, not read", None, here)
    return Check(f"{owner.name} neither assigns nor inherits {attribute}", False, here)


def indexes_from(tree: SourceTree, owner: ClassSource, method: str, attribute: str) -> Check:
    """Does the method index something by its argument less `self.ATTRIBUTE`?

    Methods that it calls on `self` and `super()` are followed. A subtraction that is used for
    anything but an index does not count. Raises Unanswered.
    """
    line = lineage(tree, owner)
    found = line.method(method)
    if found is None:
        holds = None if line.unknown else False
        return Check(f"{owner.name} has no {method}", holds, (owner.site(owner.node),))
    for place, function in _called(line, method, -1, set()):
        for node in _own_nodes(function):
            if isinstance(node, ast.Subscript) and _offset(node.slice, function, attribute):
                summary = f"{place.name}.{function.name} subtracts {attribute} from the index"
                return Check(summary, True, (place.site(node),))
    site = line.classes[found[0]].site(found[1])
    return Check(f"{owner.name}.{method} does not subtract {attribute} from the index", False, (site,))


def _settings(
    line: Lineage, method: str, after: int, attribute: str, seen: set[int]
) -> Iterator[tuple[ClassSource, ast.expr | ast.stmt]]:
    """Return where a method, or one that it calls on the same object, sets `self.ATTRIBUTE`."""
    for place, function in _called(line, method, after, seen):
        for node in _own_nodes(function):
            if isinstance(node, ast.stmt) and any(_is_own(target, attribute) for target in _targets(node)):
                yield place, node
            elif _sets_by_name(node, attribute):
                assert isinstance(node, ast.Call)
                yield place, node


def _called(line: Lineage, method: str, after: int, seen: set[int]) -> Iterator[tuple[ClassSource, Function]]:
    """A method past a place in the lineage, and every method it reaches through `self` and `super()`."""
    found = line.method(method, after)
    if found is None or id(found[1]) in seen or len(seen) >= _MAX_METHODS:
        return
    index, function = found
    seen.add(id(function))
    yield line.classes[index], function
    names = [item.name for item in line.classes]
    for node in _own_nodes(function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        target, name = node.func.value, node.func.attr
        if isinstance(target, ast.Name) and target.id == "self":
            yield from _called(line, name, -1, seen)
        elif isinstance(target, ast.Call) and _dotted(target.func) == "super":
            yield from _called(line, name, index, seen)
        elif (base := _dotted(target).rpartition(".")[2]) in names[index:] and name == method:
            yield from _called(line, name, names.index(base) - 1, seen)


def _offset(index: ast.expr, function: Function, attribute: str) -> bool:
    """Is the index something less `self.ATTRIBUTE`, or a name that was given such a value?"""
    if any(_subtracts(node, attribute) for node in ast.walk(index)):
        return True
    names = {node.id for node in ast.walk(index) if isinstance(node, ast.Name)}
    return any(
        isinstance(node, ast.Assign)
        and _subtracts(node.value, attribute)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
        for node in _own_nodes(function)
    )


def _subtracts(node: ast.AST, attribute: str) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and _is_own(node.right, attribute)


def _is_own(node: ast.expr, attribute: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == attribute and _dotted(node.value) == "self"


def _sets_by_name(node: ast.AST, attribute: str) -> bool:
    """`setattr(self, "ATTRIBUTE", ...)`"""
    if not (isinstance(node, ast.Call) and _dotted(node.func) == "setattr" and len(node.args) == 3):
        return False
    target, name = node.args[:2]
    return _dotted(target) == "self" and isinstance(name, ast.Constant) and name.value == attribute


def _targets(node: ast.stmt) -> Iterator[ast.expr]:
    """Everything that an assignment assigns to."""
    pending: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        pending = list(node.targets)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        pending = [node.target]
    while pending:
        target = pending.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            pending.extend(target.elts)
        else:
            yield target


def _binds(node: ast.stmt, attribute: str) -> bool:
    """Does a statement of a class body give the class the attribute?"""
    if isinstance(node, _FUNCTION):
        decorators = {_dotted(item).rpartition(".")[2] for item in node.decorator_list}
        return node.name == attribute and bool(decorators & {"property", "cached_property"})
    return any(isinstance(target, ast.Name) and target.id == attribute for target in _targets(node))


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function in the order they stand, without those of functions and classes inside it."""
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _SCOPE):
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def _definitions(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module or block, those under `if` and `try` among them."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if isinstance(node, (ast.If, ast.Try, ast.With)):
                yield from _definitions(getattr(node, field, ()))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _definitions(handler.body)


def _resolve(tree: SourceTree, module: str, name: str, hops: int) -> ClassSource | None:
    """The class that a name means in a module: defined there, or imported from where it is."""
    file = tree.read(module) if hops and name else None
    if file is None:
        return None
    first, _, rest = name.partition(".")
    names = _names(file)
    meaning = names.get(first)
    if isinstance(meaning, ast.ClassDef):
        return ClassSource(file, meaning) if not rest else None
    if isinstance(meaning, str):
        if rest:
            return _resolve(tree, meaning, rest, hops - 1)
        source, _, original = meaning.rpartition(".")
        return _resolve(tree, source, original, hops - 1) if source else None
    return None


def _names(file: SourceFile) -> dict[str, ast.ClassDef | str]:
    """What names of a module mean: a class defined there, or the dotted name of an import."""
    found: dict[str, ast.ClassDef | str] = {}
    package = file.module if file.path.endswith("/__init__.py") else file.module.rpartition(".")[0]
    for node in _definitions(_parsed(file).body):
        if isinstance(node, ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, (base, node.module)))
            for alias in node.names:
                found[alias.asname or alias.name] = f"{source}.{alias.name}"
    return found


def _parsed(file: SourceFile) -> ast.Module:
    try:
        return parse_ast(file.data)
    except Unparsable as error:
        raise Unanswered(f"{file.path} cannot be read as Python: {error}") from None


def _dotted(node: ast.expr) -> str:
    """`a.b.C` and `a.b.C[int]` as text; "" for other expressions."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Name):
            return ".".join([node.id, *reversed(parts)])
        else:
            return ""


def _gets(line: Lineage, place: ClassSource, attribute: str, how: str) -> str:
    if place.node is line.classes[0].node:
        return f"{line.name} {how} {attribute}"
    return f"{line.name} inherits {attribute} from {place.name}"
