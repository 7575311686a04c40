"""Log files as they come: plain, compressed, on standard input, or not at all."""

from __future__ import annotations

import gzip
import io
import lzma
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from triage.common.errors import ExitCode, TriageError, UsageError
from triage.logs import open_log, read_records
from triage.logs.reading import load
from triage.logs.reading.content import Stored

TEXT = b"[2026-05-12 14:03:59 PP3] x\n" * 1000


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_plain_and_compressed(tmp_path: Path, pack: object) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(pack(TEXT))  # type: ignore[operator]
    log = open_log(str(path))
    assert (log.name, log.data, log.partial) == (str(path), TEXT, "")


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs the zstd program to make such a file")
def test_zstd_is_read_or_says_how_to_unpack(tmp_path: Path) -> None:
    path = tmp_path / "a.log.zst"
    path.write_bytes(subprocess.run(["zstd", "-c"], input=TEXT, capture_output=True, check=True).stdout)
    try:
        assert open_log(str(path)).data == TEXT
    except UsageError as error:
        assert error.next == "unpack it first: zstd -d FILE"  # noqa: PT017


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert open_log("-").data == TEXT


def test_a_longer_log_is_cut_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.log.gz"
    path.write_bytes(gzip.compress(TEXT))
    log = open_log(str(path), limit=100)
    assert (log.data, log.partial) == (TEXT[:100], "bytes")
    assert open_log(str(path), limit=len(TEXT)).partial == ""


def test_what_is_no_log_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"\n\n")
    (tmp_path / "cut.gz").write_bytes(gzip.compress(TEXT)[:40])
    (tmp_path / "bad.xz").write_bytes(lzma.compress(TEXT)[:30] + b"nonsense")
    for name in ("empty", "cut.gz", "bad.xz", "missing", "."):
        with pytest.raises(TriageError) as caught:
            open_log(str(tmp_path / name))
        assert caught.value.exit_code is ExitCode.USAGE
        assert caught.value.next


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, triage.logs; print(*sorted(name.partition('.')[0] for name in sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert not loaded & {
        "yaml",
        "pydantic",
        "libcst",
        "paramiko",
        "rich",
        "torch",
        "gzip",
        "lzma",
        "asyncio",
        "typer",
    }


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "MEMORY", 100)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_a_large_log_stays_on_disk(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(pack(TEXT))
    log = open_log(str(path))
    assert isinstance(log.data, Stored)
    assert (len(log.data), bytes(log.data), log.data[30:60], log.partial) == (28_000, TEXT, TEXT[30:60], "")
    assert [record.text for record in read_records(log)] == ["x"] * 1000
    cut = open_log(str(path), limit=280)
    assert (bytes(cut.data), cut.partial) == (TEXT[:280], "bytes")
    assert open_log(str(path), limit=len(TEXT)).partial == ""


@pytest.mark.usefixtures("little_memory")
def test_a_large_log_in_utf_16_becomes_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(TEXT.decode().encode("utf-16"))
    assert bytes(open_log(str(path)).data) == TEXT


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_large_log_on_standard_input(
    monkeypatch: pytest.MonkeyPatch, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(TEXT))))
    assert bytes(open_log("-").data) == TEXT


def test_a_pipe_is_read(tmp_path: Path) -> None:
    code = "import sys; from triage.logs import open_log; print(len(open_log(sys.argv[1]).data))"
    done = subprocess.run(
        [sys.executable, "-c", code, "/dev/stdin"], input=TEXT, capture_output=True, check=True
    )
    assert int(done.stdout) == len(TEXT)


@pytest.mark.usefixtures("little_memory")
def test_a_large_log_of_nothing_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"\n" * 1000)
    with pytest.raises(UsageError, match="it is empty"):
        open_log(str(path))


@pytest.mark.parametrize("path", ["my logs/system.journal", "-"])
def test_a_file_of_journald_says_how_it_is_read(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"LPKSHHRH" + bytes(200)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    Path("my logs").mkdir()
    Path("my logs/system.journal").write_bytes(data)
    with pytest.raises(UsageError, match="journald's own") as caught:
        open_log(path)
    there = "'my logs/system.journal'" if path != "-" else "FILE.journal"
    assert caught.value.next.startswith(f"journalctl --file {there} --all -o short-iso-precise | triage ")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gz", "xz", "zst"])
def test_a_bomb_is_refused_before_it_fills_a_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A gigabyte of nothing, in files of 1 MB (gzip), 150 kB (xz) and 100 kB (zstd)."""
    import zstandard

    path = tmp_path / f"a.log.{kind}"
    chunk = b"\0" * (1 << 20)
    with path.open("wb") as file:
        if kind == "gz":
            packed: Any = gzip.GzipFile(fileobj=file, mode="wb", compresslevel=1)
        else:
            packed = lzma.LZMAFile(file, "wb", preset=0) if kind == "xz" else zstandard.open(file, "wb")  # noqa: SIM115
        with packed:
            for _ in range(1024 if kind != "gz" else 256):
                packed.write(chunk)
    if kind == "gz":  # whose best is a thousandth
        monkeypatch.setattr(load, "RATIO", 100)
    spooled: list[int] = []
    real = load._copy

    def copied(chunks: Iterator[bytes], spool: IO[bytes], limit: int) -> bool:
        try:
            return real(chunks, spool, limit)
        finally:
            spooled.append(spool.tell())

    monkeypatch.setattr(load, "_copy", copied)
    with pytest.raises(UsageError, match="times its size, as no log does"):
        open_log(str(path))
    assert spooled
    assert spooled[0] <= load.FREELY + load.RATIO * path.stat().st_size
    assert spooled[0] < 200 << 20
