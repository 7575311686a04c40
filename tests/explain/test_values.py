"""Only closed expressions are computed, and nothing is executed."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from triage.explain.templates import parts_of, values_in
from triage.explain.values import UNKNOWN, compute, literal


def value(text: str, **known: Any) -> Any:
    def of(node: ast.AST) -> Any:
        return known.get(node.id, UNKNOWN) if isinstance(node, ast.Name) else UNKNOWN

    return compute(ast.parse(text, mode="eval").body, of)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("40 % 16", 8),
        ("n % 8 == 0 and n > 3", True),
        ("x is None or n > 3", True),
        ("not n", False),
        ("n in (40, 41)", True),
        ("len('abc') + 1", 4),
        ("1 if n else 2", 1),
        ("-n // 7", -6),
        ("unknown + 1", UNKNOWN),
        ("unknown and n == 0", False),
        ("__import__('os').system('true')", UNKNOWN),
        ("10 ** 10 ** 10", UNKNOWN),
        ("'a' * 10 ** 9", UNKNOWN),
        ("1 / 0", UNKNOWN),
        ("2 ** 9", UNKNOWN),
        ("'a' < 1", UNKNOWN),
    ],
)
def test_what_is_computed(text: str, expected: Any) -> None:
    assert value(text, n=40) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("4", 4), ("0.5", 0.5), ("True", True), ("None", None), ("'auto'", "auto"), ("1e3", 1000.0)],
)
def test_a_value_as_a_log_writes_it(text: str, expected: Any) -> None:
    assert literal(text) == expected


@pytest.mark.parametrize(
    ("template", "message", "values"),
    [
        ('f"{a} is not {b}!"', "1 is not 2!", {"a": "1", "b": "2"}),
        ('"%s of %d" % (a, b.c)', "x of 7", {"a": "x", "b.c": "7"}),
        ('"{} and {}".format(a, b)', "1 and 2", {"a": "1", "b": "2"}),
        ('"size " + str(a) + " fails"', "size 4 fails", {"str(a)": "4"}),
        ('"100%% of %s"', "100%% of %s", {}),
        ('f"{a}{b} end"', "12 end", {}),
        ('f"{a} is not {b}!"', "something else", None),
    ],
)
def test_a_message_is_read_back_by_its_template(template: str, message: str, values: Any) -> None:
    assert values_in(parts_of(ast.parse(template, mode="eval").body), message) == values
