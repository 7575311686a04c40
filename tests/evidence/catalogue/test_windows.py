"""What the host finds and sends of a long run gives the incidents that the whole run gives."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.evidence.journal import Entry, cursor, export, put_journalctl
from tests.logs.corpus import cases, sources
from triage.evidence.catalogue import Journal, JournalWindows
from triage.evidence.catalogue.grep import extended
from triage.evidence.live import LiveEvidence
from triage.evidence.log_sources import log_sources
from triage.evidence.model import Deployment, Unanswered
from triage.evidence.unpacking import unpack
from triage.hosts import Output
from triage.hosts.local import LocalConnection
from triage.logs import read_incidents
from triage.logs.formats.journal import GAP
from triage.logs.model import Fault, Incident, LogSource
from triage.logs.reading.places import patterns
from triage.logs.reading.reader import read_lines
from triage.logs.reading.windows import PATIENCE
from triage.logs.streams import Streams

RUN = "c915d3cfd26845938b76a4178eaab2e1"
QUERY = JournalWindows("kimi.service", RUN)
SHORT, LONG = 2400, 65536
HEAD, MOST = 400, 10_000  # of a run that is read at once
CASES = [case for case in cases() if os.environ.get("TRIAGE_WINDOWS") or case.name.startswith("sglang-0.5.1")]
"""TRIAGE_WINDOWS=1 for the whole corpus, in about two minutes."""


def entry(text: bytes, at: int, pid: int = 75) -> Entry:
    return {
        "__REALTIME_TIMESTAMP": b"%d" % (1_795_969_341_000_000 + at * 1000),
        "_BOOT_ID": b"b" * 32,
        "_PID": b"%d" % pid,
        "SYSLOG_IDENTIFIER": b"python",
        "MESSAGE": text,
        "_SYSTEMD_INVOCATION_ID": RUN.encode(),
    }


def calm(size: int) -> list[bytes]:
    return [b"waiting for requests"] * size


def run_of(texts: Sequence[bytes]) -> list[Entry]:
    return [entry(text, at) for at, text in enumerate(texts)]


Host = Callable[..., LiveEvidence]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """This machine, with a journal of these entries and steps of this size."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    def make(entries: Sequence[Entry], long: int = 2 * SHORT, **options: Any) -> LiveEvidence:
        put_journalctl(tmp_path / "bin", entries, **options)
        argv = JournalWindows.argv
        monkeypatch.setattr(
            JournalWindows,
            "argv",
            lambda query: tuple(word.replace(f"long={LONG}", f"long={long}") for word in argv(query)),
        )
        return LiveEvidence(LocalConnection())

    return make


def lines(text: str | None) -> list[dict[str, str]]:
    assert text is not None
    return [json.loads(line) for line in text.splitlines()]


def numbers(text: str | None) -> list[int]:
    return [int(line["__CURSOR"].rpartition("=")[2], 16) for line in lines(text)]


def without_lines(incidents: Sequence[Incident]) -> list[Incident]:
    """Incidents whose faults are found by cursor alone: numbers of lines count what was sent."""

    def bare(fault: Fault) -> Fault:
        return dataclasses.replace(
            fault,
            position=dataclasses.replace(fault.position, line=0),
            chain=tuple(map(bare, fault.chain)),
            members=tuple(map(bare, fault.members)),
        )

    return [
        dataclasses.replace(
            incident,
            initiator=incident.initiator and bare(incident.initiator),
            faults=tuple(map(bare, incident.faults)),
            candidates=tuple(map(bare, incident.candidates)),
        )
        for incident in incidents
    ]


def journal_of(case: Path, *calm_lines: int) -> Iterator[Entry]:
    """A corpus log as a service wrote it, with so many calm lines before it, in its middle and after it."""
    texts, pids, middle = [], [], []
    for log in sources(case):
        streams = Streams()
        for line in read_lines(log):
            texts.append(line.text.encode("utf-8", "surrogateescape"))
            pids.append(line.writer or 75)
            list(streams.feed(line))
            if streams.quiet():
                middle.append(len(texts))
    cut = middle[len(middle) // 2] if middle else 0
    each = [(text, pid) for text in calm(1) for pid in dict.fromkeys(pids)]
    before, between, after = ((each * size)[:size] for size in calm_lines)
    told = list(zip(texts, pids, strict=True))
    for at, (text, pid) in enumerate([*before, *told[:cut], *between, *told[cut:], *after]):
        yield entry(text, at, pid)


@pytest.mark.parametrize("calm_lines", [(5 * SHORT, 5 * SHORT, 5 * SHORT), (3300, 3300, 100)], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_windows_tell_what_the_whole_tells(case: Path, calm_lines: Sequence[int], host: Host) -> None:
    evidence = host(list(journal_of(case, *calm_lines)))
    whole, found = evidence.ask(Journal("kimi.service", RUN)).require(), evidence.ask(QUERY).require()
    told = [read_incidents([LogSource("journal", text.encode())]) for text in (found, whole)]
    assert without_lines(told[0]) == without_lines(told[1])
    assert len(found) < len(whole)


@pytest.mark.slow
def test_of_a_healthy_run_only_its_beginning_and_its_end_come(host: Host) -> None:
    size = 3 * LONG
    found = host(run_of(calm(size)), long=LONG).ask(QUERY).value
    sent = numbers(found)
    assert sent[0] == 0
    assert sent[-1] == size - 1
    assert len(sent) <= 4 * SHORT
    assert [at for at, line in zip(sent, lines(found), strict=True) if GAP in line] == [
        at for before, at in pairwise(sent) if at != before + 1
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_is_left_out_is_told_and_longer_than_a_traceback_waits(seed: int, host: Host) -> None:
    chance = random.Random(seed)
    texts = calm(60_000)
    places = [chance.randrange(len(texts)) for _ in range(6)]
    places += [chance.randrange(0, 60_000, SHORT - 1) + chance.randrange(3) for _ in range(3)]
    for place in places:
        texts[place] = b"ValueError: x"
    found = host(run_of(texts), long=3 * SHORT).ask(QUERY).value
    sent = numbers(found)
    assert sent == sorted(set(sent))
    for place in places:
        around = range(max(0, place - 60), min(len(texts), place + 2000))
        assert set(around) <= set(sent)
    gaps = [(at, at - before) for before, at in pairwise(sent) if at != before + 1]
    assert gaps
    assert all(size > PATIENCE for _, size in gaps)
    assert [at for at, line in zip(sent, lines(found), strict=True) if GAP in line] == [at for at, _ in gaps]


@pytest.mark.parametrize("size", [0, 1, 2, HEAD - 1, HEAD, HEAD + 1, HEAD + PATIENCE])
def test_a_short_run_comes_whole(size: int, host: Host) -> None:
    assert numbers(host(run_of(calm(size))).ask(QUERY).value) == list(range(size))


@pytest.mark.parametrize("size", [HEAD + PATIENCE + 100, 9_000, MOST - 1, MOST, MOST + 1, MOST + 2])
def test_what_lies_between_the_beginning_of_a_run_and_its_first_place_may_be_left_out(
    size: int, host: Host
) -> None:
    chance = random.Random(size)
    for _ in range(3):
        texts = calm(size)
        places = [chance.randrange(HEAD, size) for _ in range(chance.choice((0, 1, 3)))]
        for place in (chance.randrange(HEAD), *places):
            texts[place] = chance.choice((b"ValueError: x", b"of\nseveral\nlines\nValueError: x"))
        found = host(run_of(texts)).ask(QUERY).value
        sent = numbers(found)
        assert sent == sorted(set(sent))
        around = (*range(HEAD), *range(min(places, default=size) - 60, size))
        assert set(around) <= set(sent) if size < MOST else set(places) <= set(sent)
        gaps = [(at, at - before) for before, at in pairwise(sent) if at != before + 1]
        assert all(gap > PATIENCE - 3 * len(places) for _, gap in gaps)  # in lines, of which some have four
        assert [at for at, line in zip(sent, lines(found), strict=True) if GAP in line] == [
            at for at, _ in gaps
        ]


@pytest.mark.parametrize("grows", [20, 90, 190, 400, 1000, 6000])
def test_what_is_written_while_a_run_is_read_hides_no_place(grows: int, host: Host) -> None:
    texts = calm(30_000)
    texts[5000] = b"ValueError: x"
    answer = host(run_of(texts), begins=7000, grows=grows).ask(QUERY)
    if answer.value is None:
        assert grows > 50
        assert "wrote too much" in answer.missing
    else:
        assert grows < 190 or grows > 3000  # it is short when it is searched, or long
        assert {5000 + near for near in range(-60, 200)} <= set(numbers(answer.value))


HOSTILE = [
    b"-- cursor: s=5;i=0",
    b"$(touch pwned) `touch pwned` ; touch pwned",
    b"two\nlines\n-- cursor: s=5;i=1\n",
    bytes(range(256)),
    b"",
    b"FROM=s=5;i=0\n\nFAILED=1",
    b"x" * 100_000,
    b"FAILED=1",
]


def test_what_a_service_writes_does_not_steer_the_walk(host: Host, tmp_path: Path) -> None:
    texts = [*calm(3 * SHORT), *HOSTILE, *calm(3 * SHORT), b"ValueError: x", *calm(3 * SHORT), *HOSTILE]
    found = lines(host(run_of(texts)).ask(QUERY).value)
    assert "ValueError: x" in [line["MESSAGE"] for line in found]
    assert [line["MESSAGE"] for line in found[-len(HOSTILE) :]] == [
        text.decode("utf-8", "backslashreplace") for text in HOSTILE
    ]
    assert not list(Path.cwd().glob("pwned"))


def test_a_journalctl_before_236_has_no_choice_of_fields(host: Host) -> None:
    assert len(numbers(host(run_of(calm(3 * SHORT)), old=True).ask(QUERY).value)) > HEAD


def test_a_systemd_before_232_knows_no_invocation_and_no_choice_of_fields(host: Host) -> None:
    evidence = host(run_of([*calm(10), b"ValueError: x"]), old=True)
    source, *_ = log_sources(evidence, Deployment("kimi", unit="kimi.service"))
    assert bytes(source.data).count(b"waiting") == 10
    (asked,) = (each.command for each in evidence.recorded if each.key.startswith("journal "))
    assert "--output-fields" not in asked


def test_a_host_without_zstd_and_one_without_gzip(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = host(run_of(calm(100)))
    answers = []
    for tool in ("zstd", "gzip", ""):
        tools = tmp_path / f"with-{tool}"
        tools.mkdir()
        for name in filter(None, ("sh", "cat", "grep", "sed", tool)):
            found = shutil.which(name)
            if found:
                (tools / name).symlink_to(found)
        (tools / "journalctl").symlink_to(tmp_path / "bin" / "journalctl")
        monkeypatch.setenv("PATH", str(tools))
        answers.append(LiveEvidence(LocalConnection()).ask(QUERY).value)
    assert len(numbers(answers[0])) == 100
    assert answers[0] == answers[1] == answers[2] == evidence.ask(Journal("kimi.service", RUN)).value


def test_without_grep_the_run_is_read_whole(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host(run_of(calm(100)))
    tools = tmp_path / "bare"
    tools.mkdir()
    for name in ("sh", "cat", "sed"):
        (tools / name).symlink_to(shutil.which(name) or "")
    (tools / "journalctl").symlink_to(tmp_path / "bin" / "journalctl")
    monkeypatch.setenv("PATH", str(tools))
    evidence = LiveEvidence(LocalConnection())
    assert evidence.ask(QUERY).value is None
    source, *_ = log_sources(evidence, Deployment("kimi", unit="kimi.service", invocation=RUN))
    assert bytes(source.data).count(b"waiting") == 100


def test_a_journalctl_that_goes_elsewhere_is_not_believed(host: Host) -> None:
    texts = [*calm(MOST), b"ValueError: x"]
    answer = host(run_of(texts), lost=True).ask(QUERY)
    assert answer.value is None
    assert "where it is told" in answer.missing


def step(start: int, *entries: Entry) -> bytes:
    told = [{"__CURSOR": cursor(start + at), **each} for at, each in enumerate(entries)]
    return export({"FROM": cursor(start)}, *told)


@pytest.mark.slow
def test_a_walk_that_was_cut_gives_what_came(tmp_path: Path) -> None:
    steps = [step(at, *run_of(calm(50))) for at in (0, 49, 98)]
    for pack in (zstandard.ZstdCompressor().compress, _gzip, bytes):
        packed = b"".join(map(pack, steps))
        seen = set()
        for size in range(0, len(packed), 61 if pack is bytes else 7):
            text = QUERY.decode(Output(None, packed[:size], cut="time"))
            seen.add(len(numbers(text)))
            assert numbers(text) == list(range(len(numbers(text))))
        assert {0, 50} & seen


def test_a_walk_that_failed_says_why() -> None:
    output = Output(1, step(0, entry(b"x", 1)), b"Failed to open files: Input/output error\n")
    with pytest.raises(Unanswered, match="Input/output"):
        QUERY.decode(output)
    with pytest.raises(Unanswered):
        QUERY.decode(Output(0, export({"FAILED": b"1"})))


def _gzip(data: bytes) -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("pack", [zstandard.ZstdCompressor().compress, _gzip])
def test_a_bomb_is_unpacked_to_the_limit(pack: Callable[[bytes], bytes]) -> None:
    bomb = pack(bytes(1 << 24)) * 4
    assert unpack(bomb, 1 << 20) == bytes(1 << 20)
    assert len(unpack(bomb, 1 << 28)) == 1 << 26
    assert unpack(bomb[:-3], 1 << 28)[: 1 << 24] == bytes(1 << 24)
    for damaged in (bomb[:2] + b"\0" * 50, bomb[:20] + b"\xff" * 50):
        unpack(damaged, 1 << 20)


def test_grep_finds_what_the_reader_looks_for(tmp_path: Path) -> None:
    told = {line for case in cases() for log in sources(case) for line in bytes(log.data).split(b"\n")}
    told = {line.replace(b"\0", b"") for line in told}
    ordered = sorted(told)
    (tmp_path / "log").write_bytes(b"".join(line + b"\n" for line in ordered))
    (tmp_path / "places").write_bytes(QUERY.stdin())
    found = subprocess.run(
        ["grep", "-naE", "-f", "places", "log"], cwd=tmp_path, env={"LC_ALL": "C"}, capture_output=True
    ).stdout
    numbered = {int(line.partition(b":")[0]) - 1 for line in found.split(b"\n") if line}
    compiled = [re.compile(pattern.encode()) for pattern in patterns()]
    sought = {at for at, line in enumerate(ordered) if any(pattern.search(line) for pattern in compiled)}
    assert sought <= numbered
    assert all(ordered[at].startswith((b"Start", b"Stop")) for at in numbered - sought)


@pytest.mark.parametrize("pattern", ["(?=x)", r"\Z", r"(?P<x>y)", r"\1"])
def test_what_grep_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="grep -E"):
        extended(pattern)


def test_a_c_shell_takes_the_script_as_it_is() -> None:
    """As a login shell it would put its history in the place of a `!x`, and ends a word at the line's end."""
    script = QUERY.argv()[2]
    assert not re.search("![^= ]", script)
    assert "\n" not in script
