"""Lines of several writers on one stream: each traceback whole, whoever came between."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from triage.logs import read_incidents, read_records
from triage.logs.model import Fault, LogSource
from triage.logs.reading.reader import read_lines
from triage.logs.streams import Streams

FIRST = [
    "Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/x/site-packages/sglang/srt/scheduler.py", line 10, in run',
    "    self.start(",
    "    ^^^^^^^^^^^",
    '  File "/x/site-packages/sglang/srt/model.py", line 20, in start',
    "    return self.pool.get(0)",
    "           ^^^^^^^^^^^^^^^^",
    "IndexError: list index out of range",
]
SECOND = [
    "Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/x/site-packages/sglang/srt/scheduler.py", line 10, in run',
    "    self.start(",
    "    ^^^^^^^^^^^",
    '  File "/x/site-packages/sglang/srt/comm.py", line 30, in start',
    "    self.group.barrier()",
    "RuntimeError: Connection closed by peer",
]


def faults(data: bytes) -> list[Fault]:
    streams = Streams()
    readings = [reading for line in read_lines(LogSource("log", data)) for reading in streams.feed(line)]
    return [fault for reading in (*readings, *streams.close()) if (fault := reading.fault("log")) is not None]


def interleaved(turns: Sequence[bool], one: list[str], other: list[str]) -> list[tuple[int, str]]:
    """Both in their own order; `turns` says whose line comes next while both have some."""
    queues = [list(one), list(other)]
    order = []
    for turn in turns:
        if queues[turn]:
            order.append((int(turn), queues[turn].pop(0)))
    return order + [(who, text) for who in (0, 1) for text in queues[who]]


turns = st.lists(st.booleans(), max_size=20)


@given(turns)
def test_pids_tell_writers_apart(turns: list[bool]) -> None:
    order = interleaved(turns, FIRST, SECOND)
    started = [False, False]
    rows = []
    for who, text in order:
        prefix = "" if started[who] else f"[2026-05-12 14:03:59 PP{who}] "
        started[who] = True
        rows.append(json.dumps({"__CURSOR": "c", "_PID": str(100 + who), "MESSAGE": prefix + text}))
    found = {fault.type: fault for fault in faults("\n".join(rows).encode())}
    assert {(each.type, len(each.frames), each.pid, *each.ranks) for each in found.values()} == {
        ("IndexError", 2, 100, "PP0"),
        ("RuntimeError", 2, 101, "PP1"),
    }


@given(turns)
def test_prefixes_tell_writers_apart(turns: list[bool]) -> None:
    rows = [
        f"(Worker_PP{who} pid={100 + who}) ERROR 11-29 14:34:04 [a.py:{who}] {text}"
        for who, text in interleaved(turns, FIRST, SECOND)
    ]
    assert {
        (each.type, len(each.frames), each.pid, *each.ranks) for each in faults("\n".join(rows).encode())
    } == {
        ("IndexError", 2, 100, "PP0"),
        ("RuntimeError", 2, 101, "PP1"),
    }


@given(turns)
def test_equal_tracebacks_that_nobody_signed_come_out_whole(turns: list[bool]) -> None:
    """The ranks of the story: the same lines twice, in any order, and no pid."""
    heads = [f"[2026-05-12 14:03:59 PP3] {FIRST[0]}", f"[2026-05-12 14:03:59 PP5] {FIRST[0]}"]
    rows = heads + [text for _, text in interleaved(turns, FIRST[1:], FIRST[1:])]
    found = faults("\n".join(rows).encode())
    whole = [fault for fault in found if fault.type == "IndexError" and len(fault.frames) == 2]
    assert len(whole) == 2
    (incident,) = read_incidents([LogSource("log", "\n".join(rows).encode())])
    assert incident.initiator is not None
    assert incident.initiator.ranks == {"PP3", "PP5"}
    assert incident.initiator.position.line == next(n for n, row in enumerate(rows, 1) if row == FIRST[-1])


def test_a_call_tells_whose_frame_comes_next() -> None:
    """Two different tracebacks line by line: a frame belongs to the one whose code calls it."""
    one = [
        "[2026-05-12 14:03:59 PP3] Traceback (most recent call last):",
        '  File "/x/a.py", line 1, in run',
        "    self.load_model()",
        '  File "/x/a.py", line 2, in load_model',
        "    self.weights[name]",
        "KeyError: 'w'",
    ]
    other = [
        "[2026-05-12 14:03:59 PP5] Traceback (most recent call last):",
        '  File "/x/a.py", line 1, in run',
        "    self.init_pool()",
        '  File "/x/a.py", line 3, in init_pool',
        "    self.buffer[layer]",
        "IndexError: list index",
    ]
    order = [row for pair in zip(one[:5], other[:5], strict=True) for row in pair] + [one[5], other[5]]
    found = {
        tuple(frame.function for frame in fault.frames): fault for fault in faults("\n".join(order).encode())
    }
    assert set(found) == {("run", "load_model"), ("run", "init_pool")}


def test_records_carry_the_ranks_of_what_they_continue() -> None:
    rows = [f"[2026-05-12 14:03:59 PP3] {FIRST[0]}", *FIRST[1:], "", "[2026-05-12 14:04:00] main", "raw"]
    records = list(read_records(LogSource("log", "\n".join(rows).encode())))
    assert [record.text for record in records] == [FIRST[0], *FIRST[1:], "", "main", "raw"]
    assert all(record.ranks == {"PP3"} for record in records[: len(FIRST)])
    assert all(record.time == records[0].time for record in records[: len(FIRST)])
    assert [record.ranks for record in records[-2:]] == [frozenset(), frozenset()]
    assert [record.position.line for record in records] == list(range(1, len(rows) + 1))


def test_a_pid_keeps_the_rank_that_it_once_named() -> None:
    rows = [
        {"__CURSOR": "c", "_PID": "7", "MESSAGE": "[2026-05-12 14:03:59 PP3] begin"},
        {"__CURSOR": "c", "_PID": "8", "MESSAGE": "[2026-05-12 14:03:59 PP4] begin"},
        {"__CURSOR": "c", "_PID": "7", "MESSAGE": "a warning without a prefix"},
    ]
    records = list(read_records(LogSource("log", "\n".join(map(json.dumps, rows)).encode())))
    assert [record.ranks for record in records] == [{"PP3"}, {"PP4"}, {"PP3"}]
