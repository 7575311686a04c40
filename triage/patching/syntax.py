"""How a pattern is spelled: Python with `$NAME` for any expression and `$...` for further arguments.

A block is statements in a row, some of them compound; a pattern is a block of one simple statement.
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize

from triage.common.python_source import parse_python

PREFIX = "__metavariable_"
REST = "__metavariables__"
_TOKEN = re.compile(r"\$(?:(\.\.\.)|([A-Z][A-Z0-9_]*))")


def metavariables(pattern: str) -> set[str]:
    """The names in a pattern, without `$`."""
    return {name for _, name in _TOKEN.findall(pattern) if name}


def to_python(pattern: str) -> str:
    """The pattern as plain Python, each metavariable an identifier that no source uses."""
    return _TOKEN.sub(lambda found: f"*{REST}" if found[1] else PREFIX + found[2], pattern)


def check_pattern(pattern: str) -> str:
    """The pattern itself. Raises ValueError when it is not one expression or simple statement."""
    body = _body(pattern)
    if len(body) != 1 or hasattr(body[0], "body"):
        raise ValueError("a pattern is one expression or one simple statement")
    return pattern


def check_block(block: str) -> str:
    """The block itself. Raises ValueError when it is no pattern and no statements in a row."""
    if not _body(block):
        raise ValueError("there is no statement in it")
    return block


def is_block(pattern: str) -> bool:
    """Is it more than one simple statement?"""
    body = _body(pattern)
    return len(body) != 1 or hasattr(body[0], "body")


def is_statement(pattern: str) -> bool:
    """Is it a statement, and not just an expression?"""
    return not isinstance(_body(pattern)[0], ast.Expr)


def nests(statement: str, block: str) -> bool:
    """Does a block hold the statement, but not at its own level?"""
    wanted, body = ast.dump(_body(statement)[0]), _body(block)
    return any(ast.dump(node) == wanted for item in body for node in ast.walk(item) if node is not item)


def _body(pattern: str) -> list[ast.stmt]:
    text = to_python(pattern)
    if "$" in text:
        raise ValueError("a metavariable is `$` and capitals, as in $POOL")
    try:
        return parse_python(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not Python: {getattr(error, 'msg', error)}") from None


# What may stand between two tokens that follow each other: layout, punctuation, comments.
_GAP = rb"(?:[^\w\"'#]|#[^\n]*)*"


@functools.cache
def _hints(pattern: str) -> tuple[re.Pattern[bytes], ...]:
    """Regexes that are found in every text that the pattern matches in: its names and numbers in a row."""
    runs: list[list[bytes]] = [[]]
    for token in tokenize.generate_tokens(io.StringIO(to_python(pattern)).readline):
        if token.type == tokenize.STRING or token.string in (REST,) or token.string.startswith(PREFIX):
            runs.append([])
        elif token.type in (tokenize.NAME, tokenize.NUMBER):
            runs[-1].append(re.escape(token.string.encode()))
    return tuple(re.compile(rb"\b" + _GAP.join(run) + rb"\b") for run in runs if run)


def may_match(pattern: str, text: bytes) -> bool:
    """False only where the pattern matches nothing in a text; cheap to ask before parsing it."""
    return all(hint.search(text) for hint in _hints(pattern))
