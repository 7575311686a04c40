from __future__ import annotations

import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triage.evidence.redaction import word_search
from triage.evidence.redaction.word_search import Words

WORDS = ("hf_", "gl", "_pass", "passwd", "Bearer", "a\\b", "x.y*", "(?", "\N{SNOWMAN}", "token", "to")


def one_by_one(text: str) -> tuple[str, ...]:
    return tuple(word for word in WORDS if word in text)


@pytest.fixture
def looked_for(monkeypatch: pytest.MonkeyPatch) -> Words:
    """In one pass, however small the text."""
    monkeypatch.setattr(word_search, "SMALL", -1)
    return Words(WORDS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=4)).map("".join))
def test_one_pass_finds_what_a_search_for_each_finds(looked_for: Words, text: str) -> None:
    assert looked_for.in_text(text) == one_by_one(text)


def test_text_that_is_no_unicode_is_searched_as_well(looked_for: Words) -> None:
    assert looked_for.in_text("\udcff token \0 hf_\ud800") == ("hf_", "token", "to")


def test_words_are_found_where_there_is_no_hyperscan(
    looked_for: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    assert looked_for.in_text("a token") == ("token", "to")


def test_small_and_large_texts() -> None:
    assert Words(WORDS).in_text("token") == Words(WORDS).in_text("." * 200_000 + "token") == ("token", "to")
