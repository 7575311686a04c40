"""The operator's own directories of rules and patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import triage
from tests.rules.test_load import GOOD
from triage.common.config import Config, config_path, load_config, with_configured
from triage.common.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty configuration directory of `triage`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "triage").mkdir()
    return tmp_path / "triage"


def test_no_file_is_no_setting(home: Path) -> None:
    assert load_config() == Config()


def test_paths_are_beside_the_file_or_at_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    (home / "mine").mkdir()
    (home / "config.yaml").write_text("rules: [mine, ~/mine]\npatches: [..]\n")
    assert load_config() == Config((home / "mine", home / "mine"), (home / "..",))


def test_a_relative_xdg_config_home_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert config_path() == Path.home() / ".config/triage/config.yaml"


def test_a_directory_that_is_named_twice_counts_once(home: Path) -> None:
    assert with_configured((home,), [home / "..", home / "../triage"]) == (home, home / "..")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rule: [a]", "rule: "),
        ("rules: mine", "rules: "),
        ("rules: [3]", "rules.0: "),
        ("rules: [missing]", "rules.0: there is no directory"),
        ("patches: [config.yaml]", "patches.0: there is no directory"),
        ("rules: [", "not YAML"),
        ("", "not a mapping"),
    ],
)
def test_a_broken_file(home: Path, text: str, says: str) -> None:
    (home / "config.yaml").write_text(text)
    with pytest.raises(UsageError, match=says) as caught:
        load_config()
    assert str(home / "config.yaml") in str(caught.value)
    assert caught.value.next


@pytest.mark.slow
def test_a_diagnosis_uses_its_rules(home: Path) -> None:
    (home / "log").write_text("Traceback (most recent call last):\nValueError: quux\n")
    (home / "mine").mkdir()
    (home / "mine/a.yaml").write_text(GOOD.replace("exception: ValueError", "message: quux"))
    before = triage("diagnose", "--log", "log", cwd=home)
    (home / "config.yaml").write_text("rules: [mine]\n")
    after = triage("diagnose", "--log", "log", "--rules", "mine", cwd=home)
    assert ("my-rule" in before.stdout, "rule my-rule" in after.stdout) == (False, True)
