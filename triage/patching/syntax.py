"""How a pattern is spelled: Python with `$NAME` for any expression and `$...` for further arguments."""

from __future__ import annotations

import ast
import re
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


def words(pattern: str) -> frozenset[bytes]:
    """Identifiers that a text must hold for the pattern to match in it; cheap to look for before parsing."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(to_python(pattern))):
        names = (getattr(node, field, None) for field in ("id", "attr", "arg", "name"))
        found.update(name for name in names if isinstance(name, str))
    return frozenset(name.encode() for name in found if not name.startswith("__metavariable"))
