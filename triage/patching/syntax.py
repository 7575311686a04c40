"""How a pattern is spelled: Python with `$NAME` for any expression and `$...` for further arguments."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
import warnings

PREFIX = "__metavariable_"
REST = "__metavariables__"
_TOKEN = re.compile(r"\$(?:(\.\.\.)|([A-Z][A-Z0-9_]*))")


def metavariables(pattern: str) -> set[str]:
    """The names in a pattern, without `$`."""
    return {name for _, name in _TOKEN.findall(pattern) if name}


def to_python(pattern: str) -> str:
    """The pattern as plain Python, each metavariable an identifier that no source uses."""
    return _TOKEN.sub(lambda found: REST if found[1] else PREFIX + found[2], pattern)


def check_pattern(pattern: str) -> str:
    """The pattern itself. Raises ValueError when it is not one expression or simple statement."""
    text = to_python(pattern)
    if "$" in text:
        raise ValueError("a metavariable is `$` and capitals, as in $POOL")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not Python: {getattr(error, 'msg', error)}") from None
    if len(body) != 1 or hasattr(body[0], "body"):
        raise ValueError("a pattern is one expression or one simple statement")
    return pattern


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
