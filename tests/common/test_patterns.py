"""What is told of patterns, held against what they really cost."""

from __future__ import annotations

import re
import sys

import pytest

from triage.common.patterns import backtracking, literals


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("", 0),
        ("abc", 3),
        ("^a.c$", 2),
        ("(abc|d)", 1),
        ("(?:ab){2,}c?", 4),
        (r"\d+ \w* out of memory", 15),
        ("[abc]x", 1),
        (r"\(\)", 2),
    ],
)
def test_literals(pattern, count):
    assert literals(pattern) == count


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        r"(\w+\s*)+:",
        "(a|b+)*c",
        "(?:a*b*)*c",
        "((a+)b?)+c",
        ".*.*x",
        r"\s*\s+x",
        r"\d+\w*x",
        "a.*b.*c",
        r"\S*:/\S+/nvcc:",
        "x|(a+)+$",
        r"(?i:foo)(\w+)*$",
        "(a|a)*b",
        "(?:a|ab|c)*d",
        "(|a|)+b",
        "(a|b|[ab]c)+d",
        r'"(?:\\.|[^"])*"',
        "(a?){30}a{30}",
        "(a{1,30}){1,30}b",
        "a?" * 30 + "a" * 30,
        ".{0,999}x?.{0,999}.{0,999}y",
        "(?=(a+)+$)b",
        "(?:x(a+)+y){1,3}",
        "(?>(a+)+b)" if sys.version_info >= (3, 11) else "(a+)+b",
    ],
)
def test_costly(pattern):
    assert backtracking(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "plain words",
        "a.*b",
        "^a.*b.*c",
        r"\d+\.\d+\.\d+",
        r"(?:[\w-]+\.)*layers",
        r"(?:/[\w.]+)+",
        r"(?:\d+,\s*)*",
        "[^\n]{0,200}a.{0,200}b.{0,200}c",
        r"No such file: \w*processor\w*\.json",
        "(?:first|second).*end",
        r"(?:\d{1,3}\.){3}\d{1,3}",
        "(?:foo|bar)+x",
        r"(\w|\d)+x",
        r'"(?:\\.|[^"\\])*"',
    ],
)
def test_cheap(pattern):
    assert backtracking(pattern) == ""


def test_a_whole_match_has_one_beginning():
    assert backtracking(r"\w*load_weights?\w*")
    assert backtracking(r"\w*load_weights?\w*", whole=True) == ""


@pytest.mark.parametrize(
    "pattern", [r"[\w.-]+@", r"(?<=a)b(?!c)", r"(?P<x>a)(?P=x)", "\u4e2d{3}[^\u00e9]*", r"[^\S\n]+|\Z"]
)
def test_everything_that_compiles_is_read(pattern):
    re.compile(pattern)
    assert literals(pattern) >= 0
    assert backtracking(pattern) == ""
