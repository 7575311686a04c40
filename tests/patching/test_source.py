from __future__ import annotations

import subprocess
import sys

import libcst as cst
import pytest

from triage.patching.source import Unparsable, parse

DEEP = {
    "attributes": "'x=' + 'a.' * n + 'b'",
    "sums": "'x=' + '1+' * n + '1'",
    "calls": "'x=a' + '()' * n",
    "conjunctions": "'x=' + 'a and ' * n + 'a'",
    "parentheses": "'x=' + '(' * n + ')' * n",
    "strings": "'x=' + '\"a\" ' * n",
    "negations": "'x=' + 'not ' * n + '1'",
    "imports": "'import a' + '.a' * n",
    "lambdas": "'x=' + 'lambda:' * n + '1'",
    "branches": "'if a:\\n pass\\n' + 'elif a:\\n pass\\n' * n",
    "patterns": "'match a:\\n case ' + 'a.' * n + 'b:\\n  a\\n'",
}


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("depth", [900, 60_000])
def test_deep_nesting_is_refused_and_does_not_end_the_process(kind: str, depth: int) -> None:
    program = f"""
from triage.patching.source import Unparsable, parse
n = {depth}
try:
    list(parse(({DEEP[kind]}).encode()).segments(bool))
except Unparsable as reason:
    print("refused:", reason)
else:
    print("parsed")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-500:]
    assert done.stdout.startswith("refused: ") or (kind == "strings" and depth == 900)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"x = (1,\r 2)\r", "as it is"),
        (b"x = '\xe9'\n", "utf-8"),
        (b"# coding: no-such-codec\n", "no-such-codec"),
        (b"x = (\n", "line 1"),
        (b"#" * (9 << 20), "larger than 8 MiB"),
    ],
)
def test_what_cannot_be_given_back_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Unparsable, match=words):
        list(parse(data).segments(bool))


def test_segments_are_whole_statements_of_the_top_level() -> None:
    text = (
        "# a comment\nimport a; import b\n@decorated\n@twice(\n    1\n)\nclass A:\n    x = 1\n\n\n"
        "if a: b = (\n    1\n)\nelse:\n    c\n"
    )
    source = parse(text.encode())
    found = [segment.module.code for segment in source.segments(bool)]
    assert found == [
        "import a; import b\n",
        "@decorated\n@twice(\n    1\n)\nclass A:\n    x = 1\n",
        "if a: b = (\n    1\n)\nelse:\n    c\n",
    ]
    assert all(
        source.utf8[segment.start :].startswith(segment.module.code.encode())
        for segment in source.segments(bool)
    )
    assert [segment.start for segment in source.segments(lambda part: b"class" in part)] == [
        text.index("@decorated")
    ]


def test_methods_that_are_not_needed_are_blank_and_the_others_stay_where_they_are() -> None:
    text = (
        "class A:\n    def a(self):\n        return 1\n\n    @cached\n    def b(self):\n        two\n\n"
        "    async def c(self):\n        three\n\n    x = 4; y = 5\n\n    def d(self): seven\n"
    )
    source = parse(text.encode())
    (segment,) = source.segments(bool, lambda method: b"three" in method)
    code = segment.module.code
    assert len(code) == len(text)
    assert all(word in code for word in ("return 1", "x = 4; y = 5"))
    assert not any(word in code for word in ("cached", "two", "seven"))
    assert code.index("three") == text.index("three")
    found = [node for node in segment.spans if isinstance(node, cst.FunctionDef) and node.asynchronous]
    start, end = segment.span(found[0])
    assert source.utf8[start:end].startswith(b"async def c(self):")


@pytest.mark.parametrize("line", [1, 2, 4, 5, 8, 9])
def test_the_statement_around_a_line(line: int) -> None:
    text = "x = (\n    1,\n)\ndef f(\n    a,\n):\n    if a:\n        return [\n            a,\n        ]\n"
    spans = {1: (1, 3), 2: (1, 3), 4: (4, 4), 5: (5, 5), 8: (8, 10), 9: (8, 10)}
    assert parse(text.encode()).statement(line, line) == spans[line]
