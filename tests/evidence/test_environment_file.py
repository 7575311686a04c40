from __future__ import annotations

import pytest

from triage.evidence.discovery.environment_file import read_environment_file

# What a service of systemd 252 found in its environment.
CASES = {
    "A=plain value  ": "plain value",
    r'A="double \"q\" $X \\ end"': 'double "q" $X \\ end',
    "A='single \"x\" $Y'": 'single "x" $Y',
    "A=a \\\n  b \\\nc": "a   b c",
    'A="two\nlines"': "two\nlines",
    'A="cont \\\ninued"': "cont inued",
    "A=it's": "it's",
    'A="a""b" c': "abc",
    "  A = spaced": "spaced",
    r"A=a\ b\tc": "a btc",
    "A=x # no comment": "x # no comment",
    "A=": "",
    'A={"a": 1}': '{"a": 1}',
    "A=\"a\" 'b'": "ab",
    "A=end\\\\": "end\\",
    'A="unterminated\nB=in it\n': "unterminated\nB=in it\n",
}


@pytest.mark.parametrize("text", CASES)
def test_values_are_those_that_systemd_gives(text: str) -> None:
    assert read_environment_file(f"# A=1\n; A=2\nexport A=3\n1A=4\n{text}") == {"A": CASES[text]}


def test_arguments_over_several_lines() -> None:
    text = 'ARGS="--model-path /srv/k2 \\\n  --tp 8 \\\n  --port 32003"\nOTHER=1\n'
    found = read_environment_file(text)
    assert found["ARGS"].split() == ["--model-path", "/srv/k2", "--tp", "8", "--port", "32003"]
    assert found["OTHER"] == "1"


@pytest.mark.parametrize("piece", ['A="', 'A="\\', "A='\n", "A=\\\n", 'A=""', "\tA\t", " ", 'A="" "'])
def test_hostile_files_end(piece: str) -> None:
    read_environment_file(piece * (1_000_000 // len(piece)))
