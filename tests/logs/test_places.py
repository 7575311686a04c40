"""Every line that tells something is found in the raw bytes of a log, in whatever form it lies there."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.logs.corpus import cases, sources
from triage.logs import facts
from triage.logs.faults import dumps, lines, traceback
from triage.logs.model import LogSource
from triage.logs.reading import places
from triage.logs.reading.reader import read_lines

TEXTS = (
    *lines.needles(),
    *facts.NEEDLES,
    *places.STOPS,
    *places.BOOTS,
    *traceback.BEGINNINGS,
    *dumps.BEGINNINGS,
)
ERRORS = (
    b"ERROR 16:58:08 scheduler.py:2626] x",
    b"[2026-05-12 14:03:59] \x1b[31mERROR\x1b[0m:    x",
    b"(EngineCore_DP0 pid=749) ERROR 01-07 00:15:34 [core.py:879] x",
    b"(EngineCore_DP0 pid=749) \x1b[31mERROR\x1b[0m 01-07 00:15:34 [core.py:879] x",
    b"CRITICAL 01-07 00:15:34 [core.py:879] x",
    b"2026-05-12 14:03:59,123 - lmdeploy - ERROR - engine.py:12 - x",
    b"2026-05-12 14:03:59,412\tERROR worker.py:1841 -- x",
    b"2026-03-06T17:53:31.052444Z ERROR shard-manager: text_generation_launcher: x",
    b"[rank6]:[E207 01:29:36.730311765 ProcessGroupNCCL.cpp:616] x",
    b"[2026-03-27 22:19:39,802 E 336 336] (raylet) logging.cc:484: x",
    b"E20260329 10:00:00.123456 12345 file.cc:12] x",
    b"gpu01:4711:4802 [0] NCCL ERROR x",
    b"[TensorRT-LLM][ERROR] x",
    b"kern: err: [2026-06-24T12:05:21.085308861Z]: x",
    b'{"timestamp": "2026-03-06T17:53:31.05Z", "level": "ERROR", "message": "x"}',
    b'{"log":"{\\"level\\":\\"error\\",\\"msg\\":\\"x\\"}\\n","stream":"stderr","time":"2026-05-12T14:03:59Z"}',
)


@pytest.fixture(scope="module")
def find() -> places.Find:
    pytest.importorskip("hyperscan")
    found = places.finder()
    assert found is not None
    return found


@pytest.mark.parametrize("text", TEXTS)
def test_what_tells_something_is_found_in_text_and_in_json(text: str, find: places.Find) -> None:
    line = f"May 12 14:03:59 gpu01 python[75]: a{text}b"
    assert find(line.encode())
    assert find(json.dumps({"MESSAGE": line}).encode())
    assert find(json.dumps({"MESSAGE": list(line.encode())}).encode())
    assert find(json.dumps({"MESSAGE": list(line.encode())}, separators=(",", ":")).encode())


@pytest.mark.parametrize("row", ERRORS)
def test_error_records_are_found(row: bytes, find: places.Find) -> None:
    (line,) = read_lines(LogSource("log", row))
    assert line.kernel or (line.head and line.level in ("ERROR", "CRITICAL"))
    assert find(row + b"\n")


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_error_records_of_real_logs_are_found(case: Path, find: places.Find) -> None:
    for source in sources(case):
        rows = bytes(source.data).split(b"\n")
        for line in read_lines(source):
            if line.head and line.level in ("ERROR", "CRITICAL"):
                assert find(rows[line.number - 1]), line.text


def test_a_cut_line_of_a_container_is_found(find: places.Find) -> None:
    assert find(b"2026-06-24T12:05:21.085308861Z stderr P the beginning")
    assert find(b'{"log":"the beginning","stream":"stderr","time":"2026-06-24T12:05:21.085308861Z"}')


@pytest.mark.parametrize(
    "row",
    [
        b"[2026-05-12 14:03:59 PP3] Decode batch. #running-req: 1, #token: 123, gen throughput: 12.3",
        b"ERROR 2026-04-05T00:01:19.209237575Z [2026-04-05 00:01:19 TP0] Decode batch.",
        b'{"log":"Decode batch\\n","stream":"stderr","time":"2026-05-12T14:03:59Z"}',
        b'{"__CURSOR":"s=1","_SYSTEMD_UNIT":"x.service","_PID":"75","PRIORITY":"6","MESSAGE":"Decode batch"}',
        b"(EngineCore pid=84) INFO 01-07 00:15:34 [loggers.py:259] Avg prompt throughput: 1.0 tokens/s",
        b'INFO:     10.0.0.8:56248 - "POST /v1/completions HTTP/1.1" 200 OK',
    ],
)
def test_ordinary_lines_are_not(row: bytes, find: places.Find) -> None:
    assert find(row + b"\n") == []


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    pytest.importorskip("hyperscan")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places.finder.cache_clear()
    yield tmp_path / "triage"
    places.finder.cache_clear()


def again() -> places.Find:
    places.finder.cache_clear()
    find = places.finder()
    assert find is not None
    return find


def test_the_database_is_built_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert again()(b"Traceback (most recent call last):")
    monkeypatch.setattr(places, "_built", lambda hyperscan, expressions: pytest.fail("it is there"))
    assert again()(b"Traceback (most recent call last):")


@pytest.mark.parametrize("damage", ["cut", "changed", "not ours alone"])
def test_a_database_that_is_not_trusted_is_built_anew(cache: Path, damage: str) -> None:
    again()
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    if damage == "cut":
        path.write_bytes(whole[:1000])
    elif damage == "changed":
        path.write_bytes(whole[:-100] + bytes(100))
    else:
        path.chmod(0o666)
    assert again()(b"Traceback (most recent call last):")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (whole, 0o600)


def test_without_a_place_to_keep_it_the_database_still_works(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file")
    assert again()(b"Traceback (most recent call last):")


def test_without_hyperscan_there_is_no_finder(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    places.finder.cache_clear()
    assert places.finder() is None
