from __future__ import annotations

import subprocess
import sys

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
    parse(({DEEP[kind]}).encode())
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
        (b"x = 1\ry = 2\r", "as it is"),
        (b"x = '\xe9'\n", "utf-8"),
        (b"# coding: no-such-codec\n", "no-such-codec"),
        (b"x = (\n", "line 1"),
        (b"#" * (9 << 20), "larger than 8 MiB"),
    ],
)
def test_what_cannot_be_given_back_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(Unparsable, match=words):
        parse(data)
