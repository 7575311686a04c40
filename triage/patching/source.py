"""Python source that can be edited byte for byte: decoded, parsed, and written back the same."""

from __future__ import annotations

import ast
import bisect
import codecs
import functools
import io
import re
import sys
import tokenize
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import libcst as cst

MAX_BYTES = 8 * 1024 * 1024
MAX_NESTING = 200  # syntax deeper than this makes libcst's parser overflow its stack
_NEWLINE = re.compile(rb"\r\n|\n|\r")


class Unparsable(Exception):
    """The bytes are not Python source that this program can read; the message says why."""


@functools.lru_cache(maxsize=64)
def parse_ast(data: bytes) -> ast.Module:
    """The syntax tree of a file's bytes, not nested too deeply for recursion. Raises Unparsable."""
    if len(data) > MAX_BYTES:
        raise Unparsable(f"the file is larger than {MAX_BYTES >> 20} MiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        version = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        raise Unparsable(f"{where}{error.msg} (read as {version})") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise Unparsable(str(error) or type(error).__name__) from None
    if _nesting(tree) > MAX_NESTING:
        raise Unparsable("its syntax is nested too deeply")
    return tree


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
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


@dataclass(frozen=True)
class Source:
    """A parsed file. Offsets are into `utf8`, whatever encoding the file itself has."""

    data: bytes
    encoding: str  # that gives back `data`, byte order mark included
    utf8: bytes
    tree: ast.Module
    module: cst.Module
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
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt) and not hasattr(node, "body"):
                last = node.end_lineno or node.lineno
                if node.lineno <= line and end_line <= last:
                    return node.lineno, last
        return line, end_line

    def encode(self, utf8: bytes) -> bytes:
        """New text in the file's own encoding."""
        return utf8.decode().encode(self.encoding)


def parse(data: bytes) -> Source:
    """Parse a file's bytes for editing. Raises Unparsable, also when they would not come back the same."""
    import libcst as cst

    tree = parse_ast(data)
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    try:
        text = codecs.decode(data, encoding)
        module = cst.parse_module(text)
        same = text.encode(encoding) == data and module.code == text
    except (cst.ParserSyntaxError, ValueError, LookupError, RecursionError) as error:
        raise Unparsable(str(error).splitlines()[0]) from None
    if not same:
        raise Unparsable("the parser does not give back the file as it is")
    utf8 = text.encode()
    starts = (0, *(found.end() for found in _NEWLINE.finditer(utf8)))
    return Source(data, encoding, utf8, tree, module, starts)
