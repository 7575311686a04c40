"""Python source from outside, read."""

from __future__ import annotations

import ast
import warnings
from threading import Lock

_reading = Lock()


def parse_python(text: str | bytes) -> ast.Module:
    """Parse without warnings. Raises SyntaxError, ValueError, RecursionError or MemoryError.

    One at a time: the interpreter keeps one count of how deep it is for all threads (up to Python 3.12 a
    SystemError now and then, `AST constructor recursion depth mismatch`), and one list of warnings.
    """
    with _reading, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)
