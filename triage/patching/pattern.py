"""Patterns compiled to libcst matchers, and replacements that touch only what differs."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libcst as cst
import libcst.matchers as m

from triage.patching.syntax import PREFIX, REST, is_block, to_python

# Layout and punctuation: a pattern matches whatever they are.
_LAYOUT = re.compile(
    r"lpar|rpar|whitespace|comma|semicolon|dot|equal|bracket|brace|leading_lines|newline|colon"
    r"|header|footer|indent"
)
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float, cst.SimpleString)
_DELIMITED = (cst.Arg, cst.Index, cst.Assign, cst.AnnAssign, cst.Return)  # whose values need no parentheses
_Triple = tuple[cst.CSTNode, cst.CSTNode, cst.CSTNode]  # in find, in replace, in the source
_PLACEHOLDER = re.compile(rf"{PREFIX}([A-Z][A-Z0-9_]*)")


@dataclass(frozen=True)
class SiteMatch:
    """A node that a pattern matches, and what each metavariable stands for."""

    node: cst.CSTNode
    bound: Mapping[str, cst.CSTNode]


@dataclass(frozen=True)
class Substitution:
    """Text that takes the place of a node."""

    node: cst.CSTNode
    text: str


@dataclass(frozen=True)
class Lines:
    """Lines before and after a statement that is kept, or in its place (all of them `before`)."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    kept: bool


@functools.cache
def parse_pattern(pattern: str) -> cst.CSTNode:
    """The expression or simple statement that a pattern is."""
    text = to_python(pattern)
    try:
        return cst.parse_expression(text)
    except cst.ParserSyntaxError:
        line = cst.ensure_type(cst.parse_statement(text), cst.SimpleStatementLine)
        return line.body[0]


@functools.cache
def parse_block(block: str) -> tuple[cst.BaseStatement, ...]:
    """The statements of a block or of a pattern that is a statement."""
    return tuple(cst.parse_module(to_python(block)).body)


def find(pattern: str, scope: cst.CSTNode) -> list[SiteMatch]:
    """Every match below a node. A metavariable that occurs twice must stand for the same code.

    The node of a block's match is its first statement.
    """
    if is_block(pattern):
        return [SiteMatch(nodes[0], bound) for nodes, bound in find_blocks(pattern, scope)]
    matcher, names = _compiled(pattern)
    found = []
    wanted = type(parse_pattern(pattern))
    for node in nodes(scope):
        if type(node) is not wanted:
            continue
        bound = _bound(node, matcher, names)
        if bound is not None:
            found.append(SiteMatch(node, bound))
    return found


def find_blocks(
    block: str, scope: cst.CSTNode
) -> list[tuple[Sequence[cst.CSTNode], Mapping[str, cst.CSTNode]]]:
    """The statements in a row that a block matches, and what its metavariables stand for."""
    compiled = [_compile(statement) for statement in parse_block(block)]
    found: list[tuple[Sequence[cst.CSTNode], Mapping[str, cst.CSTNode]]] = []
    for suite in nodes(scope):
        if not isinstance(suite, (cst.IndentedBlock, cst.Module)):
            continue
        body: Sequence[cst.CSTNode] = suite.body
        for start in range(len(body) - len(compiled) + 1):
            row = body[start : start + len(compiled)]
            bound: dict[str, cst.CSTNode] | None = {}
            for node, (matcher, names) in zip(row, compiled, strict=True):
                bound = _bound(node, matcher, names, bound)
                if bound is None:
                    break
            else:
                found.append((row, bound or {}))
    return found


def kept_at(pattern: str, block: str) -> int | None:
    """Return where a block holds the statement that a pattern is, None if it does not."""
    wanted = parse_block(pattern)
    places = [index for index, item in enumerate(parse_block(block)) if same(item, wanted[0])]
    return places[0] if places and len(wanted) == 1 else None


def substitutions(pattern: str, replacement: str, match: SiteMatch) -> list[Substitution]:
    """What to replace in a match, as few and as small nodes as make `pattern` into `replacement`."""
    return list(_differences(parse_pattern(pattern), parse_pattern(replacement), match.node, match.bound))


def block_lines(pattern: str, block: str, match: SiteMatch, unit: str) -> Lines:
    """The lines that a block puts around a match, or in its place; `unit` indents what is nested."""
    kept = kept_at(pattern, block)
    statements = parse_block(block)
    split = len(statements) if kept is None else kept

    def lines(part: Iterable[cst.CSTNode]) -> tuple[str, ...]:
        text = "".join(code_of(statement) for statement in part)
        filled = _PLACEHOLDER.sub(lambda found: _closed(match.bound[found[1]]), text)
        return tuple(_indented(line, unit) for line in filled.splitlines())

    return Lines(lines(statements[:split]), lines(statements[split + 1 :]), kept is not None)


def same(left: cst.CSTNode, right: cst.CSTNode) -> bool:
    """Is it the same code, layout and comments apart?"""
    if type(left) is not type(right):
        return False
    one, other = _parts(left), _parts(right)
    return one.keys() == other.keys() and all(_same_part(one[name], other[name]) for name in one)


def last_name(node: cst.CSTNode) -> str:
    """`a.b.pool` -> `pool`; "" for what has no name."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def nodes(scope: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and all below it but layout, in the order of the text; libcst's own walk copies as it goes."""
    pending = [scope]
    while pending:
        node = pending.pop()
        yield node
        for name in _children(type(node)):
            value = getattr(node, name)
            if isinstance(value, cst.CSTNode):
                pending.append(value)
            elif isinstance(value, (list, tuple)):
                pending.extend(reversed(value))


@functools.cache
def _children(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields that may hold nodes, the last first."""
    fields = (name for name in kind.__dataclass_fields__ if not name.startswith("_"))
    return tuple(name for name in reversed(list(fields)) if not _LAYOUT.search(name))


def _bound(
    node: cst.CSTNode,
    matcher: Any,
    names: Mapping[str, str],
    earlier: Mapping[str, cst.CSTNode] | None = None,
) -> dict[str, cst.CSTNode] | None:
    """What each metavariable stands for, also what it stood for before; None where it does not match."""
    captured = m.extract(node, matcher)
    if captured is None:
        return None
    bound = dict(earlier or {})
    for key, name in names.items():
        value = captured[key]
        assert isinstance(value, cst.CSTNode)
        if not same(bound.setdefault(name, value), value):
            return None
    return bound


@functools.cache
def _compiled(pattern: str) -> tuple[Any, Mapping[str, str]]:
    return _compile(parse_pattern(pattern))


def _compile(pattern: cst.CSTNode) -> tuple[Any, Mapping[str, str]]:
    """The matcher, and for each of its captures the metavariable that it is of."""
    names: dict[str, str] = {}

    def compile_node(node: cst.CSTNode) -> Any:
        if isinstance(node, cst.Name) and node.value.startswith(PREFIX):
            key = f"{len(names)}"
            names[key] = node.value[len(PREFIX) :]
            return m.SaveMatchedNode(m.DoNotCare(), key)
        fields = {name: compile_part(part) for name, part in _parts(node).items()}
        return getattr(m, type(node).__name__)(**fields)

    def compile_part(part: Any) -> Any:
        if isinstance(part, cst.CSTNode):
            return compile_node(part)
        if isinstance(part, (list, tuple)):
            return [m.ZeroOrMore() if _is_rest(item) else compile_node(item) for item in part]
        return part

    return compile_node(pattern), names


def _parts(node: cst.CSTNode) -> dict[str, Any]:
    """The fields of a node that mean something: children, lists of children, names and operators."""
    fields = ((name, getattr(node, name)) for name in node.__dataclass_fields__)
    return {
        name: value
        for name, value in fields
        if not name.startswith("_") and not _LAYOUT.search(name) and not isinstance(value, cst.MaybeSentinel)
    }


def _same_part(left: Any, right: Any) -> bool:
    if isinstance(left, cst.CSTNode) and isinstance(right, cst.CSTNode):
        return same(left, right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same_part, left, right))
    return bool(left == right)


def _is_rest(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Arg) and isinstance(node.value, cst.Name) and node.value.value == REST


def _differences(
    old: cst.CSTNode,
    new: cst.CSTNode,
    target: cst.CSTNode,
    bound: Mapping[str, cst.CSTNode],
    parent: cst.CSTNode | None = None,
) -> Iterator[Substitution]:
    if same(old, new):
        return
    pairs = _aligned(old, new, target)
    if pairs is None:
        yield Substitution(target, _render(new, bound, isinstance(parent, _DELIMITED)))
        return
    for one, other, place in pairs:
        yield from _differences(one, other, place, bound, old)


def _aligned(old: cst.CSTNode, new: cst.CSTNode, target: cst.CSTNode) -> list[_Triple] | None:
    """Children that take each other's place; None when the nodes differ in more than their children."""
    if type(old) is not type(new) or type(old) is not type(target):
        return None
    pairs: list[_Triple] = []
    others = _parts(new)
    for name, one in _parts(old).items():
        other, place = others.get(name), getattr(target, name)
        if _same_part(one, other):
            continue
        if isinstance(one, cst.CSTNode) and isinstance(other, cst.CSTNode):
            pairs.append((one, other, place))
        elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
            pairs += _aligned_lists(one, other, place)
        else:
            return None
    return pairs


def _aligned_lists(
    old: Sequence[cst.CSTNode], new: Sequence[cst.CSTNode], target: Sequence[cst.CSTNode]
) -> list[_Triple]:
    """Item by item, from the front up to `$...` and from the back down to it."""
    front = next((index for index, item in enumerate(old) if _is_rest(item)), len(old))
    back = len(old) - front - 1
    pairs = list(zip(old[:front], new[:front], target[:front], strict=True))
    if back > 0:
        pairs += zip(old[-back:], new[-back:], target[-back:], strict=True)
    return pairs


def _render(node: cst.CSTNode, bound: Mapping[str, cst.CSTNode], delimited: bool) -> str:
    """The code of a replacement, each metavariable as it stands in the source."""
    text = code_of(node)
    if REST in text:
        raise ValueError("$... must stay where it is in find")
    if not delimited and isinstance(node, cst.BaseExpression):
        text = _closed(node)
    return _PLACEHOLDER.sub(lambda found: _closed(bound[found[1]]), text)


def _closed(node: cst.CSTNode) -> str:
    """The code of an expression, so that whatever stands around it cannot come apart from it."""
    text = code_of(node)
    return text if isinstance(node, _ATOMS) or getattr(node, "lpar", None) else f"({text})"


def _indented(line: str, unit: str) -> str:
    """A line of libcst's, which indents by four spaces."""
    bare = line.lstrip(" ")
    return unit * ((len(line) - len(bare)) // 4) + bare


def code_of(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)
