from __future__ import annotations

import gzip
import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounds import many
from tests.logs.corpus import CORPUS
from triage.evidence import log_rotation
from triage.evidence.cases.case import read_case, write_case
from triage.evidence.catalogue import RotatedLog, TailFile, TailLog, files, rotated
from triage.evidence.live import LiveEvidence
from triage.evidence.log_rotation import MOST, joined, read_log_file
from triage.evidence.recorded import RecordedEvidence
from triage.hosts import open_connection
from triage.logs import read_incidents
from triage.logs.model import Fault, Incident, LogSource

CRASH = (CORPUS / "sglang-0.5.10-pp4-triton" / "log.log").read_bytes()
START = CRASH[: CRASH.index(b"\n", CRASH.index(b"server_args=")) + 1]
END = CRASH[len(START) :]
NEWER = b"INFO:     127.0.0.1:1 - GET /health\n" * 3


@pytest.fixture
def evidence() -> LiveEvidence:
    return LiveEvidence(open_connection("local"))


def read(evidence: LiveEvidence, path: Path, **more: str) -> LogSource:
    return read_log_file(evidence, TailFile(str(path)), **more)  # type: ignore[arg-type]


def aside(path: Path, data: bytes, modified: int = 1795999200) -> None:
    path.write_bytes(data)
    os.utime(path, (0, modified))


def positions(incident: Incident) -> list[tuple[str, int]]:
    def of(fault: Fault) -> list[tuple[str, int]]:
        inner = [each for other in (*fault.chain, *fault.members) for each in of(other)]
        return [(fault.position.source, fault.position.line), *inner]

    return [each for fault in incident.faults for each in of(fault)]


@pytest.mark.parametrize("missing", [False, True])
def test_a_crash_whose_log_was_moved_away(evidence: LiveEvidence, tmp_path: Path, missing: bool) -> None:
    log = tmp_path / "service.log"
    aside(tmp_path / "service.log.1", CRASH)
    aside(tmp_path / "service.log.2.gz", gzip.compress(b"older\n"), 1795990000)
    if not missing:
        log.write_bytes(b"")
    source = read(evidence, log)
    assert (source.name, source.data, source.parts) == (f"{log}.1", CRASH, ())
    (note,) = source.notes
    assert f"it was read from {log}.1, too" in note
    assert ("No such file" in note) is missing


def names_of(evidence: LiveEvidence) -> list[str]:
    """What was asked, beside who asks."""
    names = [each.key.partition(" ")[0] for each in evidence.recorded]
    return [name for name in names if name != "who-am-i"]


def test_a_file_that_holds_the_start_is_read_alone(evidence: LiveEvidence, tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    log.write_bytes(CRASH)
    aside(tmp_path / "service.log.1", CRASH)
    assert (source := read(evidence, log)).data == CRASH
    assert (source.notes, source.parts) == ((), ())
    assert names_of(evidence) == ["tail-file"]
    two = read_log_file(evidence, TailFile(str(log)), runs=2)
    assert (two.data, two.last_runs) == (CRASH + CRASH, 2)


def test_back_to_the_start_and_no_further(evidence: LiveEvidence, tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    log.write_bytes(b"\0" * 4096 + NEWER)  # truncated in its place, while the process went on where it was
    for number, data in enumerate((END, START, CRASH), 1):
        aside(tmp_path / f"service.log.{number}.gz", gzip.compress(data), 1795999200 - number)
    source = read(evidence, log)
    assert source.data == START + END + NEWER
    (incident,) = read_incidents([source])
    (alone,) = read_incidents([LogSource("x", CRASH)])
    lines = START.count(b"\n")
    expected = [
        (f"{log}.2.gz", line) if line <= lines else (f"{log}.1.gz", line - lines)
        for _, line in positions(alone)
    ]
    assert positions(incident) == expected
    assert incident.initiator is not None


def test_only_so_many_are_read(evidence: LiveEvidence, tmp_path: Path) -> None:
    (tmp_path / "service.log").write_bytes(NEWER)
    for number in range(1, 2 * MOST):
        aside(tmp_path / f"service.log.{number}", b"%d\n" % number, 1795999200 - number)
    assert read(evidence, tmp_path / "service.log").data == b"4\n3\n2\n1\n" + NEWER


def test_nothing_is_put_before_what_is_not_whole(
    evidence: LiveEvidence, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (files, rotated, log_rotation):
        monkeypatch.setattr(module, "TAIL", 1024)
    aside(tmp_path / "one.log.1", START)
    (tmp_path / "one.log").write_bytes(b"x" * 2000 + b"\n")
    source = read(evidence, tmp_path / "one.log")
    assert (source.data, source.notes) == (b"x" * 1023 + b"\n", ())
    (tmp_path / "two.log").write_bytes(NEWER)
    aside(tmp_path / "two.log.1.gz", gzip.compress(b"y" * 100_000))
    aside(tmp_path / "two.log.2", START, 1795990000)
    assert read(evidence, tmp_path / "two.log").data == b"y" * 1024 + NEWER


def test_one_that_cannot_be_unpacked_ends_it_and_is_named(evidence: LiveEvidence, tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    log.write_bytes(NEWER)
    aside(tmp_path / "service.log.1", END)
    aside(tmp_path / "service.log.2.gz", b"damaged", 1795990000)
    aside(tmp_path / "service.log.3", START, 1795980000)
    source = read(evidence, log)
    assert source.data == END + NEWER
    assert "service.log.2.gz could not be read: " in source.notes[1]
    assert "gzip" in source.notes[1]


def test_what_was_put_aside_before_the_run_began_is_none_of_it(
    evidence: LiveEvidence, tmp_path: Path
) -> None:
    log = tmp_path / "service.log"
    log.write_bytes(NEWER)
    aside(tmp_path / "service.log.1", CRASH)  # 2026-11-30T00:40:00 UTC
    assert read(evidence, log, since="2026-11-30T00:41:00+00:00").data == NEWER
    assert read(evidence, log, since="2026-11-30T00:39:00+00:00").data == CRASH + NEWER


def test_a_file_that_its_process_still_writes_to_under_its_new_name(
    evidence: LiveEvidence, tmp_path: Path
) -> None:
    (tmp_path / "service.log").write_bytes(CRASH)
    aside(tmp_path / "service.log.1", NEWER, 1795999200)
    aside(tmp_path / "service.log.2", START + END, 1795990000)
    source = read(evidence, tmp_path / "service.log.1")
    assert source.data == START + END + NEWER
    assert [part.name for part in source.parts] == [f"{tmp_path}/service.log.{number}" for number in (2, 1)]


def test_nothing_is_read_beside_what_a_script_wrongly_calls_its_log(
    evidence: LiveEvidence, tmp_path: Path
) -> None:
    aside(tmp_path / "shadow.1", CRASH)
    source = read_log_file(evidence, TailLog(str(tmp_path / "shadow")))
    assert "is called neither .log" in source.missing
    assert names_of(evidence) == ["tail-log"]


def test_nothing_anywhere(evidence: LiveEvidence, tmp_path: Path) -> None:
    source = read(evidence, tmp_path / "service.log")
    assert source.missing.endswith(f"on the host: tail -c 67108864 -- {tmp_path}/service.log")


def test_a_case_asks_the_same(evidence: LiveEvidence, tmp_path: Path) -> None:
    log = tmp_path / "logs" / "service.log"
    log.parent.mkdir()
    log.write_bytes(NEWER)
    aside(log.parent / "service.log.1", END)
    aside(log.parent / "service.log-20261129.gz", gzip.compress(START), 1795990000)
    live = read(evidence, log)
    write_case(tmp_path / "case", evidence)
    case = read_case(tmp_path / "case")
    asked = [each.key for each in case.recorded]
    assert f'rotated-log {{"path": "{log}.1"}}' in asked
    again = read_log_file(RecordedEvidence(case), TailFile(str(log)))
    assert replace(again, data=b"") == replace(live, data=b"")
    assert again.data[:].count(b"\n") == live.data[:].count(b"\n")
    unread = RecordedEvidence(replace(case, recorded=case.recorded[:2]))
    assert read_log_file(unread, TailFile(str(log))).data == NEWER  # a case of before
    assert RotatedLog(f"{log}.1").key in asked


@settings(max_examples=many(60), deadline=None)
@given(
    name=st.sampled_from(
        (
            "sglang-0.5.10-pp4-triton",
            "vllm-0.32-worker-killed",
            "vllm-0.32-no-such-model",
            "vllm-0.32-kv-too-small",
        )
    ),
    at=st.lists(st.floats(0, 1), min_size=1, max_size=3),
)
def test_a_log_in_parts_is_the_whole_log(name: str, at: list[float]) -> None:
    data = (CORPUS / name / "log.log").read_bytes()
    cuts = [0, *sorted({int(place * len(data)) for place in at}), len(data)]
    pieces = [(f"log.{cut}", data[cut:end]) for cut, end in pairwise(cuts) if cut < end]
    source = joined(pieces)
    whole = read_incidents([LogSource(source.name, data)])
    parted = read_incidents([source])
    rows = data.split(b"\n")
    contents = {name: piece.split(b"\n") for name, piece in pieces}
    for one, other in zip(whole, parted, strict=True):
        assert (one.id, one.fingerprint, one.facts, one.count) == (
            other.id,
            other.fingerprint,
            other.facts,
            other.count,
        )
        for (_, line), (file, there) in zip(positions(one), positions(other), strict=True):
            assert rows[line - 1].startswith(contents[file][there - 1])
            assert contents[file][there - 1] or not rows[line - 1]
