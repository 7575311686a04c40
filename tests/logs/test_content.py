"""Lines out of bytes, wherever they lie: none lost, none twice, each with its number."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.logs.reading import content, windows
from triage.logs.reading.content import Content, Stored, as_utf8, beginning, line_start, rows
from triage.logs.reading.windows import Windows

LOGS = st.lists(st.sampled_from([b"\n", b"a", b"bc", b"PLACE", b"x" * 9]), max_size=80).map(b"".join)


def stored(data: bytes) -> Stored:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        return Stored(file, len(data))


def split(data: bytes) -> list[bytes]:
    found = data.split(b"\n")
    return found if found[-1] else found[:-1]


@given(LOGS, st.integers(0, 200), st.integers(0, 200))
@settings(deadline=None)
def test_a_stored_log_is_sliced_and_searched_like_bytes(data: bytes, start: int, stop: int) -> None:
    log = stored(data)
    assert (log[start:stop], len(log), bytes(log)) == (data[start:stop], len(data), data)
    assert log.find(b"\n", start) == data.find(b"\n", start)


@given(LOGS, st.integers(0, 200))
def test_where_a_line_begins(data: bytes, at: int) -> None:
    at = min(at, len(data))
    assert line_start(data, at, 0) == data.rfind(b"\n", 0, at) + 1


@given(LOGS)
def test_every_row_once(data: bytes) -> None:
    assert [row for _, row, _ in rows(data, 0, len(data))] == split(data)
    assert all(data.startswith(row, start) for start, row, _ in rows(data, 0, len(data)))


def test_a_row_longer_than_the_limit_comes_in_pieces() -> None:
    data = b"a\n" + b"x" * (3 * content.LINE_LIMIT) + b"yz\nb"
    found = [(len(row), ends) for _, row, ends in rows(data, 0, len(data))]
    assert found[0] == (1, True)
    assert found[-1] == (1, True)
    assert sum(length for length, _ in found[1:-1]) == 3 * content.LINE_LIMIT + 2
    assert [ends for _, ends in found[1:-1]] == [*(False for _ in found[2:-1]), True]
    numbers = [line.number for line in Windows(data).lines()]
    assert numbers == [1, *(2 for _ in found[1:-1]), 3]


def test_the_beginning_is_behind_the_nulls() -> None:
    assert beginning(bytes(3 << 20) + b"abc\0d", 4) == b"abc\0"
    assert beginning(bytes(100), 4) == b""


def test_utf_16_becomes_utf_8() -> None:
    assert bytes(as_utf8("aü\n".encode("utf-16"))) == "aü\n".encode()


@given(LOGS)
def test_backward_is_forward_from_the_end(data: bytes) -> None:
    forward = [(line.number, line.text) for line in Windows(data).lines()]
    assert [text.encode() for _, text in forward] == split(data)
    assert [number for number, _ in forward] == list(range(1, len(forward) + 1))
    assert [(line.number, line.text) for line in Windows(data).backward()] == forward[::-1]


@given(LOGS, st.booleans(), st.booleans(), st.data())
@settings(deadline=None)
def test_windows_are_lines_of_the_log_in_order(
    data: bytes, backward: bool, in_file: bool, choose: st.DataObject
) -> None:
    """Each line of a place is there, no line comes twice, and each has its number, in windows of any size."""

    def find(stretch: bytes) -> list[int]:
        return [at + 5 for at in range(len(stretch)) if stretch.startswith(b"PLACE", at)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "finder", lambda: find)
        patch.setattr(windows, "SMALL", 0)
        patch.setattr(windows, "LONGEST", 5)
        for name in ("HEAD", "STEP", "STRETCH", "BLOCK", "PATIENCE"):
            patch.setattr(windows, name, choose.draw(st.integers(1, 40), label=name))
        patch.setattr(windows, "STRETCH", min(windows.STRETCH, windows.BLOCK))
        patch.setattr(windows, "HEAD", max(windows.HEAD, 5))
        patch.setattr(windows, "LEAD", (choose.draw(st.integers(1, 9)), 0))
        patch.setattr(windows, "TAIL", (choose.draw(st.integers(0, 9)), 0))
        held: Content = stored(data) if in_file else data
        quiet = choose.draw(st.booleans())
        read = Windows(held, lambda: quiet)
        lines = list(read.backward() if backward else read.lines())
        numbers = [line.number if backward else read.number(line.number) for line in lines]
    whole = split(data)
    assert numbers == sorted(set(numbers), reverse=backward)
    assert [whole[number - 1] for number in numbers] == [line.text.encode() for line in lines]
    places = {number for number, row in enumerate(whole, start=1) if b"PLACE" in row}
    assert places <= set(numbers)
    assert not whole or {1, len(whole)} <= set(numbers)
    for line, number, before in zip(lines[1:], numbers[1:], numbers, strict=False):
        assert line.gap or abs(number - before) == 1
