"""The message of a raise or log statement as a template, and the values of a run read back from a message."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from triage.explain.values import text_of

HOLE = None
MOST_HOLES = 24
LONGEST = 4000
_PERCENT = re.compile(r"%(?:\((\w{1,60})\))?[#0 +-]{0,3}\d{0,4}(?:\.\d{1,4})?[diouxXeEfFgGcrsa%]")
_BRACES = re.compile(r"\{(\w{0,60})(?:![rsa])?(?::[^{}]{0,40})?\}")

Part = tuple[str, ast.expr | None]
"""A fixed text with no expression, or an expression that fills a hole."""


def parts_of(node: ast.expr, deep: int = 0) -> list[Part]:
    """The parts of a message expression: f-strings, `%`, `.format`, concatenation; [] for what is no text."""
    if deep > 30:
        return []
    if isinstance(node, ast.Constant):
        return [(node.value, None)] if isinstance(node.value, str) else [("", node)]
    if isinstance(node, ast.JoinedStr):
        found: list[Part] = []
        for value in node.values:
            if isinstance(value, ast.FormattedValue):
                found.append(("", value.value))
            elif isinstance(value, ast.Constant):
                found.append((str(value.value), None))
        return found
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = parts_of(node.left, deep + 1), parts_of(node.right, deep + 1)
        return [*(left or [("", node.left)]), *(right or [("", node.right)])]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        arguments = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
        return _filled(node.left, arguments, _PERCENT)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _filled(node.func.value, list(node.args), _BRACES)
    return []


def _filled(template: ast.expr, arguments: list[ast.expr], holes: re.Pattern[str]) -> list[Part]:
    if not (isinstance(template, ast.Constant) and isinstance(template.value, str)):
        return []
    found: list[Part] = []
    at, rest = 0, iter(arguments)
    for match in holes.finditer(template.value):
        found.append((template.value[at : match.start()], None))
        at = match.end()
        if match[0] != "%%":
            found.append(("", next(rest, ast.Constant(value=None))))
    return [*found, (template.value[at:], None)]


def log_parts(call: ast.Call) -> list[Part]:
    """The parts of `logger.error("... %s", value)`."""
    if not call.args:
        return []
    return _filled(call.args[0], list(call.args[1:]), _PERCENT) if call.args[1:] else parts_of(call.args[0])


def fixed(parts: list[Part]) -> int:
    """Characters of a template that stand in every message of it."""
    return sum(len(text.strip()) for text, hole in parts if hole is None)


def values_in(parts: list[Part], message: str) -> dict[str, str] | None:
    """What a message tells of the expressions of its template, by their text; None where it is not of it.

    The fixed texts are looked for one after the other, so that it takes linear time.
    """
    message = message[:LONGEST]
    values: dict[str, str] = {}
    at = 0
    pending: list[ast.expr] = []
    for text, hole in _merged(parts):
        if hole is not None:
            pending.append(hole)
            continue
        place = message.find(text, at)
        if place < 0 or (place > at and not pending):
            return None
        if len(pending) == 1:
            values.setdefault(text_of(pending[0]), message[at:place].strip())
        pending.clear()
        at = place + len(text)
    if len(pending) == 1:
        values.setdefault(text_of(pending[0]), message[at:].strip())
    return {name: value for name, value in values.items() if name}


def _merged(parts: list[Part]) -> Iterator[Part]:
    """Yield the parts with neighbouring texts joined, and without blanks at the end, as logs have them."""
    text = ""
    for fixed_text, hole in parts[: 2 * MOST_HOLES]:
        if hole is None:
            text += fixed_text
            continue
        if text:
            yield text, None
        text = ""
        yield "", hole
    if text.rstrip():
        yield text.rstrip(), None
