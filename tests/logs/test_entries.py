"""Of a journal in export form windows tell what the whole of it tells."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.evidence.journal import export
from tests.logs.corpus import cases, sources
from tests.logs.test_windows import PAD, in_whole, needs_hyperscan, padded, small
from triage.logs import read_incidents
from triage.logs.model import LogSource
from triage.logs.reading import entries, windows
from triage.logs.reading.entries import windows_of
from triage.logs.reading.line import Line
from triage.logs.reading.places import finder
from triage.logs.reading.reader import read_lines

__all__ = ["small"]  # a fixture

FAKE = b"\n\n__CURSOR=s=9\n_TRANSPORT=kernel\nMESSAGE=what a user wrote\n\nMESSAGE\n" + b"\xff" * 8 + b"\n\n"
LOOKS = (b"%s", b"\x1b[32m%s\x1b[0m", b"%s\n\n", b"%s" + FAKE)


def entry(message: bytes, at: int) -> dict[str, bytes]:
    return {
        "__CURSOR": b"s=1;i=%x" % at,
        "__REALTIME_TIMESTAMP": b"%d" % (1_795_972_507_000_000 + 10_000 * at),
        "_PID": b"241",
        "SYSLOG_IDENTIFIER": b"python",
        "MESSAGE": message,
    }


def exported(rows: Iterable[bytes]) -> bytes:
    """Entries of these lines; of those that say nothing some are in colour, or hold several lines."""
    find = finder()
    assert find is not None
    told = (
        LOOKS[at % 4] % row if at % 3 == 0 and row[:1] != b" " and find(row) == [] else row
        for at, row in enumerate(rows)
    )
    return export(*(entry(row, at) for at, row in enumerate(told)))


def left_out(source: LogSource) -> bool:
    return any(line.gap for line in windows_of(source, lambda: True).lines())


@needs_hyperscan
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("case", cases()[::12], ids=lambda case: case.name)
def test_windows_of_a_padded_journal(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = [
        LogSource(log.name, exported(padded(bytes(log.data), PAD // 3).splitlines())) for log in sources(case)
    ]
    assert all(map(left_out, logs))
    assert read_incidents(logs) == in_whole(logs, monkeypatch)


def told(line: Line) -> tuple[int, str | None, str]:
    return line.number, line.cursor, line.text


@needs_hyperscan
@pytest.mark.parametrize("seed", range(40))
def test_whatever_values_hold_each_line_is_one_of_the_whole(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, sizes in (
        (windows, {"SMALL": 0, "HEAD": 600, "STEP": 500, "PATIENCE": 3, "LEAD": (90, 1), "TAIL": (90, 1)}),
        (entries, {"BLOCK": 700}),
    ):
        for name, value in sizes.items():
            monkeypatch.setattr(module, name, value)
    chance = random.Random(seed)
    said = [b"fine", b"IndexError: list index out of range", b"x" * 300, b"", b"y" * 2000, b"a=b"]
    rows = [chance.choice(LOOKS) % chance.choice(said) for _ in range(120)]
    data = export(*(entry(row, at) for at, row in enumerate(rows)))
    for damaged in (data, *(_damaged(data, chance) for _ in range(3))):
        source = LogSource("log", damaged)
        whole = [told(line) for line in read_lines(source)]
        assert len(whole) > 60
        chosen = windows_of(source, lambda: True)
        some = [(chosen.number(line.number), line.cursor, line.text) for line in chosen.lines()]
        if damaged is data:
            entire = [told(line) for line in windows_of(source).lines()]
            assert len(some) < len(entire) == 120
            assert set(some) <= set(entire)


def _damaged(data: bytes, chance: random.Random) -> bytes:
    start = chance.randrange(len(data) // 2)
    return data[:start] + chance.randbytes(chance.randrange(9)) + data[start + chance.randrange(400) :]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        b"A\n",
        b"\n",
        b"MESSAGE\n" + b"\xff" * 8 + b"\n",
        b"MESSAGE\n" + b"\x01" + b"\0" * 7 + b"x\n",
        b"x" * 3_000_000,
        b"MESSAGE\n\0\0\0\0\0\0\0\0\n\n",
        b"MESSAGE=IndexError: x\n",
    ],
)
def test_hostile_repetition_ends(piece: bytes) -> None:
    data = b"__CURSOR=s=1\nMESSAGE=a\n\n" + piece * (3_000_000 // len(piece))
    source = LogSource("log", data)
    list(windows_of(source, lambda: True).lines())
    read_incidents([source])


def test_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [b"one", b"two\n\nlines", b"three", b"four"]
    forward = [entry(row, at) for at, row in enumerate(rows)]
    lines = list(read_lines(LogSource("log", export(*reversed(forward)))))
    assert [line.text for line in lines] == ["one", "two", "", "lines", "three", "four"]
    assert [line.number for line in lines] == sorted((line.number for line in lines), reverse=True)
