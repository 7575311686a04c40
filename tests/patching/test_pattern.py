from __future__ import annotations

import libcst as cst
import pytest

from triage.patching import pattern
from triage.patching.syntax import may_match


@pytest.mark.parametrize(
    ("shape", "code", "matched"),
    [
        ("$POOL.get(0)", "a.b.get(0)", ["a.b.get(0)"]),
        ("$POOL.get(0)", "a.get(  # why\n    0,\n)", ["a.get(  # why\n    0,\n)"]),
        ("$POOL.get(0)", "a.get(1); a.get(0, 1); a.get(); a.get(x=0); a.get(*0); a.put(0)", []),
        ("$POOL.get(0)", "a.get((0))", ["a.get((0))"]),
        ("$POOL.get($...)", "a.get(); a.get(1, k=2)", ["a.get()", "a.get(1, k=2)"]),
        ("f($X, $...)", "f(); f(1); f(1, 2)", ["f(1)", "f(1, 2)"]),
        ("f(layer=$X)", "f(layer=a); f(a)", ["f(layer=a)"]),
        ("$X == $X", "a.b == a . b; a.b == a.c", ["a.b == a . b"]),
        ("$X.start - $X.end", "p.start - p.end; p.start - q.end", ["p.start - p.end"]),
        ("x[-1]", "x[-1]; x[1]; x[\n    -1\n]", ["x[-1]", "x[\n    -1\n]"]),
        ("layer_id = 0", "layer_id = 0\nother = 0\nlayer_id = 1\n", ["layer_id = 0"]),
        ("$X = 0", "a.b = 0\nc: int = 0\n", ["a.b = 0"]),
        ("assert $X is not None", "assert y is not None\nassert y\n", ["assert y is not None"]),
        ("$F(0)", "get(0); a.get(0)", ["get(0)", "a.get(0)"]),
    ],
)
def test_matches(shape: str, code: str, matched: list[str]) -> None:
    module = cst.parse_module(code)
    assert [module.code_for_node(match.node) for match in pattern.find(shape, module)] == matched
    assert may_match(shape, code.encode()) or not matched


@pytest.mark.parametrize(
    ("find", "replace", "code", "expected"),
    [
        ("$P.get(0)", "$P.get($P.first)", "a.get(  # keep\n    0,\n)", ["a.first"]),
        ("$P.get(0)", "$P.put(0)", "a.get( 0 )", ["put"]),
        ("$P.get($...)", "$P.put($...)", "a.get(1, 2)", ["put"]),
        ("f($X, $..., 0)", "f($X, $..., 1)", "f(a, b, c, 0)", ["1"]),
        ("$P.get(0)", "wide($P)", "a.get(0)", ["wide", "a"]),
        ("f($X)", "$X + 1", "f(a) * 2", ["(a + 1)"]),
        ("f($X, 0)", "f($X, $X + 1)", "f(a, 0)", ["a + 1"]),
        ("g() * 2", "(a, b) * 2", "g() * 2", ["(a, b)"]),
        ("$P[0]", "$P.first", "(a or b)[0]", ["(a or b).first"]),
        ("f($X)", "$X.y", "f(a or b)", ["(a or b).y"]),
        ("layer_id = 0", "layer_id = pool.first", "layer_id = 0  # why", ["pool.first"]),
    ],
)
def test_only_what_differs_is_replaced(find: str, replace: str, code: str, expected: list[str]) -> None:
    match = pattern.find(find, cst.parse_module(code))[0]
    assert [part.text for part in pattern.substitutions(find, replace, match)] == expected


@pytest.mark.parametrize(
    ("shape", "text", "possible"),
    [
        ("$P.get(0)", "x.get(\n  # layer 7, not (0)\n  0,\n)", True),
        ("$P.get(0)", "x.get((0))", True),
        ("$P.get(0)", "x.get(layer, 0)", False),
        ("$P.get(0)", "x.target(0)", False),
        ("$P.get(0)", "x.get(00)", False),
        ("$P.get($P.first)", "x.get(y.last)", False),
        ("f($X, key=0)", "f(1, key = 0)", True),
        ("$X is not None", "a is None", False),
        ("f('a')", 'f("a")', True),
    ],
)
def test_what_is_worth_parsing(shape: str, text: str, possible: bool) -> None:
    assert may_match(shape, text.encode()) is possible
