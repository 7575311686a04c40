"""What programs say when they fail: each entry of each file by its own samples and near misses."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.common.errors import UsageError
from triage.logs.faults import line_files
from triage.logs.faults.line_check import cases_of, check_lines
from triage.logs.faults.line_docs import document
from triage.logs.faults.line_files import KNOWLEDGE, load_lines
from triage.logs.faults.line_schema import read_files

SHIPPED = line_files.line_files(KNOWLEDGE)
OWN = """
family: acme-proxy
lines:
  - needle: "acme: upstream lost"
    pattern: 'acme: (?P<said>upstream lost: .{1,200})'
    kind: error
    type: upstream-lost
    weight: root
    because: the proxy says that its upstream is gone
    read: said
    samples:
      - line: "acme: upstream lost: gpu01"
        type: upstream-lost
        message: "upstream lost: gpu01"
    near_misses:
      - "INFO a user asks what acme: upstream lost means"
"""


def test_every_entry_gives_what_its_samples_say_and_nothing_for_its_near_misses() -> None:
    assert list(check_lines(SHIPPED)) == []


def test_each_family_has_a_file_of_its_name() -> None:
    assert {file.stem for file in SHIPPED} == {each.family for each in read_files(SHIPPED)}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "type: upstream-lost\n        message",
            "type: other\n        message",
            "type 'upstream-lost' and not 'other'",
        ),
        ('"upstream lost: gpu01"', '"upstream"', "gives the message"),
        ('line: "acme: upstream', 'line: "acme: downstream', "does not claim its sample"),
        (
            "INFO a user asks what acme: upstream lost means",
            "acme: upstream lost: x",
            "claims what it must not",
        ),
        ("read: said", "read: guess", "there is no reader guess"),
        ("'acme: (?P", "'acme: (?P(", "not a regular expression"),
        ("    kind: error", "    kind: errors", "lines.0.kind"),
        ("family: acme-proxy", "family: kernel", "is already that of"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in OWN
    (tmp_path / "own.yaml").write_text(OWN.replace(old, new))
    try:
        told = str(list(check_lines((*SHIPPED, tmp_path / "own.yaml"))))
    except UsageError as error:
        told = str(error)
    assert said in told.replace('\\"', '"').replace("\\\\", "")


@pytest.mark.slow
def test_a_users_words_are_read_and_a_log_with_them_has_an_incident(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.cli.command import triage

    (tmp_path / "config" / "triage").mkdir(parents=True)
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "own.yaml").write_text(OWN)
    (tmp_path / "config" / "triage" / "config.yaml").write_text(f"lines: [{tmp_path / 'lines'}]\n")
    (tmp_path / "server.log").write_text("starting\nacme: upstream lost: gpu01\n")
    log = str(tmp_path / "server.log")
    guessed = triage("diagnose", "--log", log)
    assert (guessed.returncode, "no line of a program is known for it" in guessed.stdout) == (1, True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    told = triage("diagnose", "--log", log)
    assert (told.returncode, "upstream lost: gpu01" in told.stdout) == (1, True), told.stderr
    assert "no line of a program is known for it" not in told.stdout


def test_entries_are_the_same_kept_or_read_and_a_damaged_file_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = load_lines()
    (kept,) = tmp_path.glob("triage/lines-*.json")
    assert load_lines() == first
    kept.write_text('[{"needle": 1}]')
    assert load_lines() == first
    kept.write_text("no")
    assert load_lines() == first


def test_without_a_place_to_keep_them_they_are_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert load_lines() == load_lines() != ()


def test_each_entry_has_a_name() -> None:
    names = [name for name, _ in cases_of(read_files(SHIPPED))]
    assert len(names) == len(set(names)) >= 98


def test_the_list_of_faults_is_that_of_the_files() -> None:
    assert document() == (Path(__file__).parents[2] / "docs" / "faults.md").read_text()


def test_the_example_of_the_page_on_lines_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "lines.md").read_text()
    assert OWN.strip() in page.replace("because: the proxy", "because: the proxy")


def test_the_files_of_a_directory_are_checked_by_a_command(tmp_path: Path) -> None:
    from tests.cli.command import triage

    (tmp_path / "own.yaml").write_text(OWN)
    done = triage("rules", "lines", str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"{len(SHIPPED) + 1} files, 0 problems\n"), done.stderr
    (tmp_path / "own.yaml").write_text(OWN.replace('"upstream lost: gpu01"', '"other"'))
    done = triage("rules", "lines", str(tmp_path))
    assert (done.returncode, "acme-proxy: acme: upstream lost" in done.stdout) == (1, True)
