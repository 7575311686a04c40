"""Kept rules are the same rules, and never those of another state of the files."""

from __future__ import annotations

import os

import pytest

from tests.rules.test_load import GOOD
from triage.common.errors import UsageError
from triage.engines import UNKNOWN
from triage.rules import cache, load
from triage.rules.load import load_rules


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where rules are kept during a test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "triage"


@pytest.fixture
def own(tmp_path):
    """A directory with one rule file."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "rule.yaml").write_text(GOOD)
    return tmp_path / "own"


def test_kept_rules_are_the_same(kept):
    assert load_rules() == load_rules()
    assert len(list(kept.glob("rules-*.json"))) == 1


def test_the_second_time_no_rule_file_is_read(kept, monkeypatch):
    first = load_rules()
    monkeypatch.setattr(load, "load_model", lambda *arguments: pytest.fail("a rule file was read"))
    assert load_rules() == first


@pytest.mark.slow
def test_a_changed_file_is_read_again(kept, own):
    load_rules([own])
    (own / "rule.yaml").write_text(GOOD.replace("a title", "another title"))
    assert "another title" in {rule.title for rule in load_rules([own])}
    (own / "rule.yaml").write_text(GOOD.replace("role: cause", "role: nonsense"))
    with pytest.raises(UsageError, match="role"):
        load_rules([own])


def test_a_broken_rule_is_not_kept(kept, own):
    (own / "rule.yaml").write_text("id: [")
    for _ in range(2):
        with pytest.raises(UsageError, match="not YAML"):
            load_rules([own])


@pytest.mark.parametrize("damage", [b"", b"{", b"[]x", b'[{"id": "a"}]', b"\xff\xfe\x00"])
def test_a_damaged_file_is_made_anew(kept, damage):
    first = load_rules()
    (file,) = kept.glob("rules-*.json")
    file.write_bytes(damage)
    assert load_rules() == first
    assert file.read_bytes() != damage


@pytest.mark.slow
def test_only_a_few_states_are_kept(kept, own):
    for number in range(8):
        (own / "rule.yaml").write_text(GOOD.replace("a title", "a title" + "x" * number))
        load_rules([own])
    assert len(list(kept.glob("rules-*.json"))) == 4


def test_nothing_is_lost_where_it_cannot_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "file"))
    assert load_rules()


def test_another_engine_is_another_state(kept, monkeypatch):
    load_rules()
    monkeypatch.setattr(cache, "ENGINES", {**cache.ENGINES, "another": UNKNOWN})
    load_rules()
    assert len(list(kept.glob("rules-*.json"))) == 2
