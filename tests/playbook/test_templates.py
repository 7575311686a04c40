"""Expressions over data: what they give, what they refuse, and that what they give is never read again."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from triage.playbook.templates import (
    MAX_SOURCE,
    MAX_VALUE,
    ExpressionError,
    evaluate,
    expression_names,
    render,
    template_names,
)

VALUES = {
    "unit": "sglang",
    "count": 3,
    "on": True,
    "nothing": None,
    "empty": [],
    "hostile": "{{ unit }}{% for a in [1] %}x{% endfor %}",
    "data": {"items": [1, 2], "keys": "k", "deep": {"a": [{"b": "c"}]}, "__class__": "a key"},
    "remedies": [
        {"kind": "setting", "id": "layout", "helps": True},
        {"kind": "patch", "id": "one", "helps": False},
        {"kind": "patch", "id": "two", "helps": True},
        {"kind": "patch", "id": "three", "helps": None},
    ],
}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("count + 1", 4),
        ("count * 2", 6),
        ("unit ~ '.service'", "sglang.service"),
        ("data['items'][1]", 2),
        ("data.items", [1, 2]),  # the key, not a method
        ("data.keys", "k"),
        ("data.deep.a[0].b", "c"),
        ("data.__class__", "a key"),
        ("not empty", True),
        ("empty and empty[0].x == 1", []),
        ("missing is defined", False),
        ("range is defined or dict is defined", False),
        ("data.no.such.thing | default('d')", "d"),
        ("(empty | first).x | default([])", []),
        (
            "remedies | selectattr('kind', 'eq', 'patch') | selectattr('helps') | map(attribute='id')|first",
            "two",
        ),
        ("remedies | selectattr('kind', 'eq', 'upgrade')", []),
        ("'layout' in (remedies | map(attribute='id'))", True),
        ("{'a': [unit, count]}", {"a": ["sglang", 3]}),
        ("hostile", VALUES["hostile"]),
    ],
)
def test_an_expression_gives_data(source, value):
    assert evaluate(source, VALUES) == value


@pytest.mark.parametrize(
    "source",
    [
        "missing",
        "data.missing",
        "data.missing.more",
        "empty[0]",
        "empty | first",
        "[unit, missing]",
        "missing + 1",
        "missing == 1",
        "unit if empty",
    ],
)
def test_what_is_missing_is_an_error(source):
    with pytest.raises(ExpressionError, match=r"undefined|no attribute|no element|no value|was empty"):
        evaluate(source, VALUES)


@pytest.mark.parametrize(
    "source",
    [
        "''.__class__",
        "''.__class__.__mro__[1].__subclasses__()",
        "''['__class__']",
        "data.deep.__class__",
        "data.update({'a': 1})",
        "data.deep.a.append(1)",
        "'{0.__class__}'.format(unit)",
        "unit.format",
        "unit | attr('__class__')",
        "[''] | map(attribute='__class__') | list",
        "[''] | map('attr', '__class__') | list",
        "self",
        "self.__init__.__globals__",
        "cycler.__init__.__globals__.os",
        "lipsum.__globals__",
        "range(10)",
        "namespace()",
        "''.join",
    ],
)
def test_nothing_escapes(source):
    before = json.dumps(VALUES)
    with pytest.raises(ExpressionError):
        evaluate(source, VALUES)
    assert json.dumps(VALUES) == before


@pytest.mark.parametrize(
    "source",
    [
        "'x' * 2",
        "2 * [1]",
        "'x' * 1000000000",
        "[1] * 1000000000",
        "1000000000 * 'x'",
        "9 ** 9 ** 9 ** 9",
        "'%1000000000d' % 1",
        "'x' | center(1000000000)",
        "'x' | indent(1000000000)",
        "'%1000000000d' | format(1)",
        "1e308 * 10",
        "(" * 2000 + "1" + ")" * 2000,
        "-" * (MAX_SOURCE - 1) + "1",
        "[" * 300 + "]" * 300,
        "x" * (MAX_SOURCE + 1),
    ],
)
def test_little_does_not_become_much(source):
    with pytest.raises(ExpressionError):
        evaluate(source, VALUES)


def test_a_value_is_bounded():
    long = {"text": "x" * (MAX_VALUE // 2)}
    assert evaluate("text", long) == long["text"]
    with pytest.raises(ExpressionError, match="longer than"):
        evaluate("text ~ text", long)
    with pytest.raises(ExpressionError, match="longer than"):
        render("{{ text }}, {{ text }}", long)


BOMBS = [
    " ~ ".join(["text"] * 500),
    "[" + ", ".join(["text"] * 500) + "]",
    "[" + ", ".join(["text"] * 500) + "] | string",
    "[" + ", ".join(["text"] * 500) + "] | join",
    "(text | list) | join(text)",
    "[" + ", ".join(["items"] * 500) + "] | map('join', text) | list",
    "items | map('default', items) | list",
    "items | select('in', items) | list",
    "items | map('string') | map('list') | map('join', items | string) | list",
    "(" + " + ".join(["items"] * 500) + ") | unique",
    "1 | round(999999999, 'ceil')",
    "1.5 | round(-999999999, 'floor')",
]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BOMBS)))
def test_no_expression_costs_much(number):
    """Of values of half a megabyte, in a process that has 10 seconds and 300 MB for it."""
    code = f"""
import resource
from pathlib import Path
from tests.playbook.test_templates import BOMBS
from triage.playbook.templates import ExpressionError, evaluate
values = {{"text": "x" * (1 << 19), "items": ["y"] * (1 << 17)}}
room = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() + 300_000_000
resource.setrlimit(resource.RLIMIT_AS, (room, room))
used = int(resource.getrusage(resource.RUSAGE_SELF).ru_utime)
resource.setrlimit(resource.RLIMIT_CPU, (used + 10, used + 10))
try:
    evaluate(BOMBS[{number}], values)
except ExpressionError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert any(words in done.stdout for words in ("longer than", "too much", "at most", "recursion depth")), (
        done.stdout
    )


def test_a_value_is_a_copy():
    evaluate("data", VALUES)["items"].append(3)
    assert VALUES["data"]["items"] == [1, 2]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("plain", "plain"),
        ("", ""),
        ("{{ count }}", 3),
        ("{{ on }}", True),
        ("{{ nothing }}", None),
        ("{{ empty }}", []),
        ("{{ 4 }}", 4),
        ("{{ '4' }}", "4"),  # text that looks like a number stays text
        ("  {{ count }}", "  3"),
        ("{{ unit }}-{{ count }}", "sglang-3"),
        ("{{ on }}, {{ nothing }}", "true, null"),
        ("{{ '{{' }}", "{{"),
        ("{{ '}}' }}", "}}"),
        ("{{ hostile }}", VALUES["hostile"]),
        ("it says: {{ hostile }}\n", f"it says: {VALUES['hostile']}\n"),
        (["{{ count }}", "a {{ unit }}", 7], [3, "a sglang", 7]),
        (False, False),
    ],
)
def test_a_template_keeps_types_and_never_reads_a_value_again(text, value):
    rendered = render(text, VALUES)
    assert rendered == value
    assert type(rendered) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        "{% if on %}x{% endif %}",
        "{# note #}",
        "{% raw %}{{ x }}{% endraw %}",
        "{{ unit",
        "{{ }}",
        "{{ unit }} {{ 1 + }}",
        "{{ unit | nosuch }}",
        "{{ unit }}{% set x = 1 %}",
        "{{ a b }}",
        "x" * (MAX_SOURCE + 1),
    ],
)
def test_a_template_is_expressions_alone(text):
    with pytest.raises(ExpressionError):
        template_names(text)
    with pytest.raises(ExpressionError):
        render(text, VALUES)


def test_an_expression_is_one_expression():
    with pytest.raises(ExpressionError):
        expression_names("unit }}{{ count")
    with pytest.raises(ExpressionError):
        evaluate("unit }}{% set x = 1 %}{{ count", VALUES)


def test_the_names_that_are_needed():
    assert expression_names("a.b[c] | default(d) if e is defined else f") == {
        "a",
        "b",
        "c",
        "d",
        "e",
        "f",
    } - {"b"}
    assert template_names(["{{ a }}-{{ b.c }}", "text", 4]) == {"a", "b"}
    assert template_names("{{ 1 }}") == set()
