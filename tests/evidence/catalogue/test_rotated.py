from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from triage.evidence.catalogue import RotatedLog, RotatedLogs
from triage.evidence.catalogue.rotated import MANY, live_name
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection


@pytest.fixture
def evidence() -> LiveEvidence:
    return LiveEvidence(open_connection("local"))


def names(evidence: LiveEvidence, path: Path) -> list[str]:
    return [Path(file.path).name for file in evidence.ask(RotatedLogs(str(path))).require()]


def put(directory: Path, *names: str, modified: int = 1795999200) -> None:
    """Files, each of which was written to an hour before the one that is named before it."""
    for number, name in enumerate(names):
        (directory / name).write_text("x\n")
        os.utime(directory / name, (0, modified - 3600 * number))


@pytest.mark.parametrize(
    "aside",
    [
        ("service.log.1", "service.log.2.gz", "service.log.10.gz"),
        ("service.log-20261130", "service.log-20261129.zst", "service.log-2026112807.xz"),
        ("service-20261130.log", "service-2026-11-29.log.gz"),
        ("service.log.2026-11-30_14-00-00", "service.log-1795999200.gz", "service.log.20261129"),
    ],
)
def test_what_rotated_files_are_called(
    evidence: LiveEvidence, tmp_path: Path, aside: tuple[str, ...]
) -> None:
    put(tmp_path, *aside)
    others = (
        "service.log",
        "service.1.log",
        "service.log.bak",
        "service.log.1x",
        "other.log.1",
        "service.log-30000",
    )
    put(tmp_path, *others)
    assert names(evidence, tmp_path / "service.log") == list(aside)


def test_of_files_of_one_second_the_number_or_the_date_counts(evidence: LiveEvidence, tmp_path: Path) -> None:
    for name in ("k.log.2", "k.log.10", "k.log.1", "d.log-20261129", "d.log-20261130"):
        put(tmp_path, name)
    assert names(evidence, tmp_path / "k.log") == ["k.log.1", "k.log.2", "k.log.10"]
    assert names(evidence, tmp_path / "d.log") == ["d.log-20261130", "d.log-20261129"]


def test_one_that_is_just_being_packed_is_told_once(evidence: LiveEvidence, tmp_path: Path) -> None:
    put(tmp_path, "k.log.1.gz", "k.log.1")
    assert names(evidence, tmp_path / "k.log") == ["k.log.1"]


def test_hostile_names_links_and_what_is_no_file(evidence: LiveEvidence, tmp_path: Path) -> None:
    base = tmp_path / "a $(touch pwned) [1]*"
    base.mkdir()
    log = base / "-k*.log"
    put(base, "-k*.log.1", "-kk.log.2", "-k*.log.3\n81a4 1795999200 7 x", "-k*.log.4;id")
    (base / "-k*.log.5").symlink_to("/etc/shadow")
    (base / "-k*.log.6").mkdir()
    os.mkfifo(base / "-k*.log.7")
    assert names(evidence, log) == ["-k*.log.1"]
    for number in range(2 * MANY):
        put(base, f"many.log.{number}", modified=number)
    assert names(evidence, base / "many.log") == [f"many.log.{number}" for number in range(63, 31, -1)]
    assert not list(tmp_path.rglob("pwned"))


def test_nothing_was_put_aside(evidence: LiveEvidence, tmp_path: Path) -> None:
    assert names(evidence, tmp_path / "k.log") == []
    assert names(evidence, tmp_path / "none" / "k.log") == []


@pytest.mark.parametrize(
    ("path", "live"),
    [
        ("/l/k.log.1", "/l/k.log"),
        ("/l/k.log.1.gz", "/l/k.log"),
        ("/l/k.err-20261130", "/l/k.err"),
        ("/l/k.log.2026-11-30", "/l/k.log"),
        ("/l/k.log", "/l/k.log"),
        ("/l/run.1", "/l/run.1"),
        ("/l/k-20261130.log", "/l/k-20261130.log"),
    ],
)
def test_what_a_file_was_called_before(path: str, live: str) -> None:
    assert live_name(path) == live


WORDS = b"its words \xff\n" * 1000


def zstd(data: bytes) -> bytes:
    if shutil.which("zstd") is None:
        pytest.skip("no zstd here")
    return subprocess.run(["zstd", "-q"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("k.log.1", lambda data: data),
        ("k.log.1.gz", gzip.compress),
        ("k.log.1.bz2", bz2.compress),
        ("k.log.1.xz", lzma.compress),
        ("k.log.1.zst", zstd),
    ],
)
def test_it_is_read_as_it_was(evidence: LiveEvidence, tmp_path: Path, name: str, data: object) -> None:
    assert callable(data)
    (tmp_path / name).write_bytes(data(WORDS))
    text = evidence.ask(RotatedLog(str(tmp_path / name))).require()
    assert text.encode("utf-8", "surrogateescape") == WORDS


def test_a_link_a_pipe_and_damage_are_missing_with_a_reason(evidence: LiveEvidence, tmp_path: Path) -> None:
    (tmp_path / "k.log.1").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "k.log.2")
    (tmp_path / "k.log.3.gz").write_bytes(b"no gzip")
    for name, why in (("k.log.1", "a link"), ("k.log.2", "no file"), ("k.log.3.gz", "not in gzip format")):
        answer = evidence.ask(RotatedLog(str(tmp_path / name)))
        assert answer.value is None
        assert why in answer.missing
    (tmp_path / "k.log.4.gz").write_bytes(gzip.compress(WORDS)[:-20])  # as while it is being packed
    assert (evidence.ask(RotatedLog(str(tmp_path / "k.log.4.gz"))).value or "").startswith("its words")


def test_a_host_without_the_program_that_unpacks(
    evidence: LiveEvidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "k.log.1.zst").write_bytes(b"x")
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in ("sh", "tail", "timeout", "setsid", "env"):
        if found := shutil.which(program):
            (programs / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(programs))
    assert evidence.ask(RotatedLog(str(tmp_path / "k.log.1.zst"))).missing == "zstd is not on this host"
