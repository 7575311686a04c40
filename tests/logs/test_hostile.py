"""No input makes the reader crash, hang, or lose its place; what comes out stays bounded."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounds import many
from tests.logs.corpus import cases, sources
from triage.logs import read_incidents, read_records
from triage.logs.model import Fault, Incident, LogSource
from triage.logs.views.timeline import LogTimelines, timelines
from triage.report.timeline import lines

PIECES = (
    b"Traceback (most recent call last):\n",
    b'  File "/x/sglang/a.py", line 3, in f\n',
    b"    g()\n",
    b"    ^^^\n",
    b"ValueError: x\n",
    b"KeyError\n",
    b"\n",
    b"[2026-05-12 14:03:59 PP3] ",
    b"[2026-05-12 14:03:59] ",
    b"\r\n",
    b"\r",
    b"(Worker_PP1 pid=7) ERROR 11-29 14:34:04 [a.py:1] ",
    b"(EngineCore pid=9) ",
    b"[rank1]: ",
    b"[rank1]:[E207 01:29:36.730311765 a.cpp:1] ",
    b"Nov 29 16:22:57 gpu01 systemd[1]: ",
    b"Nov 29 16:22:57 gpu01 kernel: [1.000000] ",
    b"x.service: Failed with result 'signal'.\n",
    b"Started x.service - X.\n",
    b"Stopping x.service - X.\n",
    b"server_args=ServerArgs(pp_size=8, tp_size=2)\n",
    b"During handling of the above exception, another exception occurred:\n",
    b"The above exception was the direct cause of the following exception:\n",
    b"  + Exception Group Traceback (most recent call last):\n",
    b"  | ",
    b"  +-+---------------- 1 ----------------\n",
    b"  | ExceptionGroup: x (1 sub-exception)\n",
    b"  [Previous line repeated 900 more times]\n",
    b"Fatal Python error: Segmentation fault\n",
    b"Current thread 0x00007f (most recent call first):\n",
    b'  File "a", line 1 in f\n',
    b"terminate called after throwing an instance of 'X'\n",
    b"  what():  y\n",
    b"Out of memory: Killed process 7 (python)\n",
    b"Worker proc VllmWorker-1 died unexpectedly (exit code: -9)\n",
    b"Rank 1 scheduler died during initialization (exit code: -9)\n",
    b'{"__CURSOR":"c","_PID":"7","MESSAGE":"',
    b'"}\n',
    b'{"log":"',
    b'","stream":"stderr","time":"2026-05-12T14:03:59Z"}\n',
    b"__CURSOR=c\n",
    b"MESSAGE\n",
    b"\x05\x00\x00\x00\x00\x00\x00\x00",
    b"MESSAGE=",
    b"2026-06-24T12:05:21.085308861Z stderr P ",
    b"2026-06-24T12:05:21.085308861Z stderr F ",
    b"web-1  | ",
    b"> ",
    b"3: ",
    b"\x1b[31m",
    b"\x1b]",
    b"\0",
    b"\xff\xfe",
    "\u2028▀\ud800".encode("utf-8", "surrogatepass"),
    b"9" * 40,
    b"it/s]",
    b"[" * 50,
    b"(" * 50,
    b"Xid (PCI:0000:02:00): 79, x\n",
    b"x: error: unrecognized arguments: y\n",
    b"SIGTERM received\n",
)


def check(incidents: tuple[Incident, ...], data: bytes) -> None:
    """What holds of every answer, whatever was asked."""
    rows = data.count(b"\n") + 1
    for incident in incidents:
        assert incident.faults
        assert len(incident.fingerprint) == 16
        assert (incident.initiator is None) == bool(incident.candidates)
        initiators = [fault for fault in incident.faults if fault.role == "initiator"]
        assert initiators == ([incident.initiator] if incident.initiator else [])
        for fault in incident.faults:
            assert 1 <= fault.position.line <= rows
            _bounded(fault)


def _bounded(fault: Fault) -> None:
    assert fault.because or fault.kind == "exception"
    assert len(fault.message) <= 4200
    assert "\x1b" not in fault.message
    assert "\0" not in fault.message
    assert len(fault.frames) <= 1000


def read(data: bytes) -> None:
    check(read_incidents([LogSource("log", data)]), data)


@given(st.lists(st.sampled_from(PIECES), max_size=60).map(b"".join))
@settings(max_examples=many(300), deadline=None)
def test_any_order_of_pieces(data: bytes) -> None:
    read(data)


@given(st.binary(max_size=400))
@settings(max_examples=many(200), deadline=None)
def test_any_bytes(data: bytes) -> None:
    read(data)


@given(
    st.lists(
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60), min_size=1, max_size=30
    )
)
@settings(max_examples=many(200), deadline=None)
def test_every_line_of_a_plain_log_is_in_a_record(rows: list[str]) -> None:
    data = "".join(f"{row}\n" for row in rows).encode()
    records = list(read_records(LogSource("log", data)))
    assert {record.position.line for record in records} == set(range(1, len(rows) + 1))


def mutated(data: bytes, random: random.Random) -> bytes:
    """A log with something done to it: bytes changed, lines cut, doubled, moved, pieces put in."""
    for _ in range(random.randint(1, 8)):
        if not data:
            break
        at, end = sorted((random.randrange(len(data)), random.randrange(len(data))))
        end = min(end, at + random.choice((1, 20, 400, 8000)))
        what = random.randrange(7)
        if what == 0:
            data = data[:at] + data[end:]
        elif what == 1:
            data = data[:at] + random.choice(PIECES) + data[at:]
        elif what == 2:
            data = data[:end] + data[at:end] + data[end:]
        elif what == 3:
            data = data[:at] + bytes((random.randrange(256),)) + data[at + 1 :]
        elif what == 4:
            data = data[end:] + data[at:end]
        elif what == 5:
            data = data[:at] + data[at:end][::-1] + data[end:]
        else:
            rows = data.split(b"\n")
            random.shuffle(rows)
            data = b"\n".join(rows)
    return data


def mutations(seed: int, count: int) -> None:
    """Read so many mutated pieces of the corpus; of some, look at what a terminal would get."""
    logs = [bytes(source.data) for case in cases() for source in sources(case)]
    rng = random.Random(seed)
    for number in range(count):
        log = rng.choice(logs)
        at = log.rfind(b"\n", 0, rng.randrange(len(log))) + 1 if rng.random() < 0.5 else 0
        data = mutated(log[at : at + rng.choice((500, 2000, 10_000, 60_000))], rng)
        try:
            incidents = read_incidents([LogSource("log", data)])
            check(incidents, data)
            for line in lines(LogTimelines(timelines(incidents, str))) if number % 20 == 0 else ():
                assert not [each for each in line.plain if each < " " or "\x7f" <= each <= "\x9f"]
        except Exception as error:
            raise AssertionError(f"seed {seed}, mutation {number}: {error!r}") from error


def test_mutated_corpus() -> None:
    """More of them: TRIAGE_FUZZ=100000 TRIAGE_FUZZ_SEED=7."""
    mutations(int(os.environ.get("TRIAGE_FUZZ_SEED", "1")), int(os.environ.get("TRIAGE_FUZZ", many(250))))


BIG: dict[str, Callable[[], bytes]] = {
    "one line of 50 MB": lambda: b"a" * 50_000_000,
    "one line of brackets": lambda: b"[rank1]:" * 1_000_000,
    "one line of escapes": lambda: b"\x1b]\x1b[" * 500_000,
    "one line of carriage returns": lambda: b"abc\r" * 200_000,
    "one line of JSON that never closes": lambda: b'{"a":' * 1_000_000,
    "one line of errors": lambda: b"x ERROR IndexError: " * 5_000_000,
    "one banner without an end": lambda: b"server_args=" + b"model='" * 500_000,
    "no newline at the end": lambda: b"Traceback (most recent call last):\n" + b"x" * 100_000,
    "many tracebacks": lambda: (PIECES[0] + PIECES[1] + PIECES[2] + PIECES[4]) * 20_000,
    "headers alone": lambda: PIECES[0] * 30_000,
    "frames alone": lambda: (PIECES[1] + PIECES[2]) * 20_000,
    "a chain without end": lambda: (PIECES[0] + PIECES[1] + PIECES[4] + b"\n" + PIECES[21] + b"\n") * 10_000,
    "groups in groups": lambda: (PIECES[23] + PIECES[26] + PIECES[25]) * 10_000,
    "many ranks": lambda: b"".join(b"[2026-05-12 14:03:59 PP%d] ValueError: x\n" % n for n in range(40_000)),
    "many writers": lambda: b"".join(b"(Worker_PP%d pid=%d) ValueError: x\n" % (n, n) for n in range(40_000)),
    "many starts": lambda: (PIECES[15] + PIECES[18] + PIECES[15] + PIECES[17]) * 10_000,
    "many parts": lambda: PIECES[45] * 40_000,
    "repeated fields": lambda: b"__CURSOR=c\n" + b"MESSAGE=x\n" * 200_000,
    "empty lines": lambda: b"\n" * 300_000,
    "nulls": lambda: b"\0" * 5_000_000,
}


@pytest.mark.parametrize("make", BIG.values(), ids=BIG)
def test_big(make: Callable[[], bytes]) -> None:
    """Large inputs of the worst kinds end within the time limit of the test run."""
    read(make())


def test_a_long_line_keeps_its_text() -> None:
    data = b"[2026-05-12 14:03:59 PP3] " + b"y" * 200_000
    (record,) = islice(read_records(LogSource("log", data)), 2)
    assert (record.ranks, len(record.text)) == ({"PP3"}, 200_000)
