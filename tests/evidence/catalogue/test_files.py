from __future__ import annotations

import os
from pathlib import Path

import pytest

from triage.evidence.catalogue import ListDirectory, ReadFile, TailFile, TailLog
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection


@pytest.fixture
def evidence() -> LiveEvidence:
    return LiveEvidence(open_connection("local"))


def test_a_file_keeps_every_byte(evidence: LiveEvidence, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfcoding: utf-8\r\n\xff\xfe\x00 tail"
    (tmp_path / "a b.py").write_bytes(data)
    text = evidence.ask(ReadFile(str(tmp_path / "a b.py"))).require()
    assert text.encode("utf-8", "surrogateescape") == data


def test_a_name_that_looks_like_an_option_or_a_command(evidence: LiveEvidence, tmp_path: Path) -> None:
    for name in ("-n", "$(touch pwned)", "new\nline", "--help"):
        (tmp_path / name).write_text(name)
        assert evidence.ask(ReadFile(str(tmp_path / name))).value == name
    assert {entry.name for entry in evidence.ask(ListDirectory(str(tmp_path))).require()} == {
        "-n",
        "$(touch pwned)",
        "new\nline",
        "--help",
    }


def test_what_is_not_there_is_missing(evidence: LiveEvidence, tmp_path: Path) -> None:
    answer = evidence.ask(ReadFile(str(tmp_path / "none")))
    assert answer.value is None
    assert "No such file or directory" in answer.missing
    assert answer.command == f"cat -- {tmp_path}/none"
    assert "Is a directory" in evidence.ask(ReadFile(str(tmp_path))).missing


def test_json_is_read_only_where_it_is_json(evidence: LiveEvidence, tmp_path: Path) -> None:
    """In the cache of models config.json is a link to a file that is named by its hash."""
    (tmp_path / "0123").write_text('\n{"num_hidden_layers": 61}')
    (tmp_path / "config.json").symlink_to("0123")
    assert "61" in evidence.ask(ReadFile(str(tmp_path / "config.json"))).require()
    (tmp_path / "shadow").write_text("root:$y$j9T$:")
    (tmp_path / "index.json").symlink_to("shadow")
    answer = evidence.ask(ReadFile(str(tmp_path / "index.json")))
    assert (answer.value, answer.missing) == (None, "it is not JSON")
    assert "j9T" not in "".join(each.text or "" for each in evidence.recorded)


def test_an_endless_file_is_cut(evidence: LiveEvidence) -> None:
    answer = evidence.ask(ReadFile("/dev/zero"))
    assert answer.partial == "bytes"
    assert len(answer.value or "") == ReadFile.limit


def test_a_listing(evidence: LiveEvidence, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "directory").mkdir()
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    listed = [(entry.kind, entry.name) for entry in evidence.ask(ListDirectory(str(tmp_path))).require()]
    assert listed == [("directory", "directory"), ("other", "fifo"), ("file", "file"), ("link", "link")]


def test_the_tail_of_a_log(evidence: LiveEvidence, tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"line\n" * 100)
    assert evidence.ask(TailFile(str(tmp_path / "log"))).value == "line\n" * 100


@pytest.mark.parametrize("name", ["kimi.yaml", "prod.env", "env.sh"])
def test_settings_are_read_through_links_to_settings_alone(
    evidence: LiveEvidence, tmp_path: Path, name: str
) -> None:
    (tmp_path / f"real-{name}").write_text("tp: 8\n")
    (tmp_path / name).symlink_to(f"real-{name}")
    (tmp_path / "shadow").write_text("root:secret\n")
    (tmp_path / f"other-{name}").symlink_to("shadow")
    assert evidence.ask(ReadFile(str(tmp_path / name))).value == "tp: 8\n"
    refused = evidence.ask(ReadFile(str(tmp_path / f"other-{name}")))
    assert refused.value is None
    assert "it is a link to" in refused.missing


def test_a_log_is_not_read_through_a_link_to_what_is_none(evidence: LiveEvidence, tmp_path: Path) -> None:
    (tmp_path / "kimi-2.log").write_text("its words\n")
    (tmp_path / "kimi.log").symlink_to("kimi-2.log")
    (tmp_path / "shadow").write_text("root:secret\n")
    (tmp_path / "other.log").symlink_to("shadow")
    assert evidence.ask(TailLog(str(tmp_path / "kimi.log"))).value == "its words\n"
    for name in ("other.log", "shadow"):
        refused = evidence.ask(TailLog(str(tmp_path / name)))
        assert refused.value is None
        assert "is called neither .log" in refused.missing
    assert "No such file" in evidence.ask(TailLog(str(tmp_path / "none.log"))).missing
