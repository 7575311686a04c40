"""Nothing that could steer a terminal or a page passes."""

from __future__ import annotations

import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.report import json
from triage.report.junit import junit
from triage.report.safe import safe, safe_line
from triage.workflows.replay import Difference, Replayed


@given(st.text(st.characters(codec=None)))
def test_no_control_or_format_character_is_left(text):
    kept = [c for c in safe(text) if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\n"]
    assert kept == []


@pytest.mark.parametrize("character", list("\u202e\u2066\u200b\u200f\ufeff\x1b\x9b\x07\x08\r"))
def test_spelled_out(character):
    assert character not in safe(f"a{character}b")
    assert f"{ord(character):x}" in safe(f"a{character}b")


def test_plain_text_stays():
    assert safe("héllo 世界 ✓ [bold]x[/bold]\nnext") == "héllo 世界 ✓ [bold]x[/bold]\nnext"
    assert safe("a\tb") == "a    b"


@given(st.text(), st.integers(4, 50))
def test_a_line_is_one_line(text, limit):
    line = safe_line(text, limit)
    assert "\n" not in line
    assert len(line) <= max(limit, len(safe(text[: limit + 1])))


@given(st.text(st.characters(codec="utf-8")))
def test_junit_is_well_formed_whatever_a_case_says(text):
    tree = ElementTree.fromstring(
        junit([Replayed(text, 0.1, (Difference(text, text),)), Replayed("fine", 0.1, ())]).encode()
    )
    assert tree.get("tests") == "2"
    assert tree.get("failures") == "1"
    assert len(tree.findall("testcase/failure")) == 1


@given(st.text(st.characters(codec=None)))
def test_json_is_ascii(text):
    assert json.dumps({"a": text}).isascii()
