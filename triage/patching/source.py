"""Python source that can be edited byte for byte: decoded, parsed, and written back the same."""

from __future__ import annotations

import ast
import bisect
import codecs
import functools
import io
import itertools
import re
import sys
import tokenize
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from triage.common.python_source import parse_python

if TYPE_CHECKING:
    import libcst as cst
    from libcst.metadata import CodeSpan

MAX_BYTES = 8 * 1024 * 1024
MAX_NESTING = 200  # syntax deeper than this makes libcst's parser overflow its stack
_LEAVES = (ast.Name, ast.Constant, ast.expr_context)
_NEWLINE = re.compile(rb"\r\n|\n|\r")


class Unparsable(Exception):
    """The bytes are not Python source that this program can read; the message says why."""


@functools.lru_cache(maxsize=64)
def parse_ast(data: bytes) -> ast.Module:
    """The syntax tree of a file's bytes, not nested too deeply for recursion. Raises Unparsable."""
    tree = parse_plain(data)
    if _nesting(tree) > MAX_NESTING:
        raise Unparsable("its syntax is nested too deeply")
    return tree


def parse_plain(data: bytes) -> ast.Module:
    """The syntax tree of a file's bytes, however deep. Raises Unparsable."""
    if len(data) > MAX_BYTES:
        raise Unparsable(f"the file is larger than {MAX_BYTES >> 20} MiB")
    try:
        return parse_python(data)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        raise Unparsable(f"{where}{error.msg} (read as {version})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unparsable(str(error) or type(error).__name__) from None


def _nesting(tree: ast.Module) -> int:
    """Depth of the tree as libcst builds it: `a and b and c` and `import a.b.c` are chains there."""
    deepest = 0
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, ast.BoolOp):
            depth += len(node.values)
        elif isinstance(node, ast.alias):
            depth += node.name.count(".")
        elif isinstance(node, ast.ImportFrom):
            depth += (node.module or "").count(".")
        deepest = max(deepest, depth)
        for value in vars(node).values():  # ast.iter_child_nodes takes four times as long
            for child in value if type(value) is list else (value,):
                if isinstance(child, ast.AST) and not isinstance(child, _LEAVES):
                    pending.append((child, depth + 1))
    return deepest


@dataclass(frozen=True)
class Segment:
    """Whole statements of a module's top level, parsed by themselves: files are large and places small."""

    start: int  # offset into the source's `utf8`
    text: bytes
    module: cst.Module

    @functools.cached_property
    def spans(self) -> Mapping[cst.CSTNode, CodeSpan]:
        """Return where each node stands, as offsets into the segment."""
        from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper

        return MetadataWrapper(self.module, unsafe_skip_copy=True).resolve(ByteSpanPositionProvider)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Start and end of a node as offsets into the source."""
        found = self.spans[node]
        return self.start + found.start, self.start + found.start + found.length


@dataclass(frozen=True)
class Source:
    """A file's text. Offsets are into `utf8`, whatever encoding the file itself has."""

    encoding: str  # that gives back the file's bytes, byte order mark included
    utf8: bytes
    tree: ast.Module
    starts: tuple[int, ...]  # offset of each line

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds an offset."""
        return bisect.bisect_right(self.starts, offset)

    def lines(self, first: int, last: int) -> tuple[int, int]:
        """The span of offsets of whole lines, 1-based, both included."""
        end = self.starts[last] if last < len(self.starts) else len(self.utf8)
        return self.starts[first - 1], end

    def statement(self, line: int, end_line: int) -> tuple[int, int]:
        """The lines of the simple statement around a span of lines; the span itself in a compound one."""
        pending: list[ast.AST] = [*self.tree.body]
        while pending:
            node = pending.pop()
            first, last = getattr(node, "lineno", line), getattr(node, "end_lineno", end_line)
            if not first <= line <= end_line <= last:
                continue
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                return first, last
            pending.extend(ast.iter_child_nodes(node))
        return line, end_line

    def segments(
        self, wanted: Callable[[bytes], bool], needed: Callable[[bytes], bool] = bool
    ) -> Iterator[Segment]:
        """The parts of the top level whose bytes are wanted; of classes only the methods that are needed.

        Raises Unparsable.
        """
        for node, first, last in self._blocks():
            start, end = self.lines(first, last)
            if wanted(self.utf8[start:end]):
                yield _segment(start, self._pruned(node, start, end, needed))

    def _pruned(self, node: ast.stmt, start: int, end: int, needed: Callable[[bytes], bool]) -> bytes:
        """The text of a statement, a blank line as long in the place of each method that is not needed."""
        text = bytearray(self.utf8[start:end])
        body = node.body if isinstance(node, ast.ClassDef) else []
        for before, method in itertools.pairwise(body):  # the first one stays: a class has a body
            first, last = _lines(method)
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)) and first > (
                before.end_lineno or 0
            ):
                a, b = self.lines(first, last)
                if not needed(self.utf8[a:b]):
                    text[a - start : b - start] = b" " * (b - a - 1) + b"\n"
        return bytes(text)

    def encode(self, utf8: bytes) -> bytes:
        """New text in the file's own encoding."""
        return utf8.decode().encode(self.encoding)

    def _blocks(self) -> Iterator[tuple[ast.stmt, int, int]]:
        """The top level's statements with their first and last lines; those that share a line are one."""
        block: tuple[ast.stmt, int, int] | None = None
        for node in self.tree.body:
            first, last = _lines(node)
            if block is not None and first <= block[2]:
                block = (ast.Pass(), block[1], last)
                continue
            if block is not None:
                yield block
            block = (node, first, last)
        if block is not None:
            yield block


def _lines(node: ast.stmt) -> tuple[int, int]:
    """First and last line of a statement, its decorators included."""
    decorators = getattr(node, "decorator_list", ())
    return min([node.lineno, *(item.lineno for item in decorators)]), node.end_lineno or node.lineno


def parse(data: bytes) -> Source:
    """Read a file for editing. Raises Unparsable, also when its text would not give back the same bytes."""
    tree = parse_ast(data)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = codecs.decode(data, encoding)
        same = text.encode(encoding) == data
    except (SyntaxError, ValueError, LookupError) as error:
        raise Unparsable(str(error)) from None
    if not same:
        raise Unparsable(f"its text does not give back the same bytes as {encoding}")
    utf8 = text.encode()
    starts = (0, *(found.end() for found in _NEWLINE.finditer(utf8)))
    return Source(encoding, utf8, tree, starts)


@functools.lru_cache(maxsize=16)  # a fleet's hosts have the same files
def _segment(start: int, utf8: bytes) -> Segment:
    import libcst as cst

    text = utf8.decode()
    try:
        module = cst.parse_module(text)
        same = module.code == text
    except (cst.ParserSyntaxError, ValueError, RecursionError) as error:
        raise Unparsable(str(error).splitlines()[0]) from None
    if not same:
        raise Unparsable("the parser does not give back its text as it is")
    return Segment(start, utf8, module)
