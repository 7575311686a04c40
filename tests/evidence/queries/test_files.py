from __future__ import annotations

import os
from pathlib import Path

import pytest

from triage.evidence.live import LiveEvidence
from triage.evidence.queries import ListDirectory, ReadFile, TailFile
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


def test_an_endless_file_is_cut(evidence: LiveEvidence) -> None:
    answer = evidence.ask(ReadFile("/dev/zero"))
    assert answer.partial == "bytes"
    assert len(answer.require()) == ReadFile.limit


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
