"""What is said again and again is counted as if it were read, and hides nothing that is new."""

from __future__ import annotations

import json
import os
import random
import re

import pytest

from tests.bounds import many
from tests.logs.test_windows import in_whole, needs_hyperscan
from triage.logs import read_incidents, repeats
from triage.logs.model import Incident, LogSource
from triage.logs.reading import windows
from triage.logs.repeats import OFTEN, Repeats

START = "[2026-05-12 14:00:00] server_args=ServerArgs(model_path='/m', pp_size=4, tp_size=1)\n"
STAMP = "[2026-05-12 14:%02d:%02d PP%d] "
TRACEBACK = """\
Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/{0}.py", line 3, in f
    {0}()
ValueError: {0} number {1}
"""
CALM = "Memory pool: {1} of 7\n"
SAID = (
    TRACEBACK,
    TRACEBACK.replace("ValueError: {0} number {1}", "RuntimeError: CUDA error {1}"),
    "SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n",
    "ERROR: a message of {1} that no pattern knows\n",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {1} MiB.\n",
)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes at which a few kilobytes have many windows and much that is known."""
    for name, value in {"SMALL": 0, "HEAD": 600, "STEP": 700, "BLOCK": 5000, "STRETCH": 2048}.items():
        monkeypatch.setattr(windows, name, value)
    monkeypatch.setattr(windows, "PATIENCE", 20)
    monkeypatch.setattr(windows, "LEAD", (200, 1))
    monkeypatch.setattr(windows, "TAIL", (200, 1))
    monkeypatch.setattr(repeats, "OFTEN", 4)


def log(rng: random.Random) -> bytes:
    """A few hot stretches, with calm between them, new faults within, and new starts."""
    out = [START]
    second = 0
    for _ in range(rng.randint(1, 6)):
        hot = rng.sample(SAID, rng.randint(1, 3))
        for _ in range(rng.choice((5, 30, 200))):
            second += 1
            text = rng.choice(hot) if rng.random() < 0.97 else CALM
            stamp = STAMP % (second // 60 % 60, second % 60, rng.randrange(4))
            out.append(stamp + text.format("abc"[rng.randrange(2)], second))
        kind = rng.random()
        if kind < 0.4:
            out += [stamp + CALM.format("", n) for n in range(rng.choice((3, 100)))]
        elif kind < 0.7:
            out.append(stamp + TRACEBACK.format(f"only_{'xyz'[rng.randrange(3)]}", 1))
        else:
            out.append(START)
    return "".join(out).encode()


def journal(data: bytes) -> bytes:
    """The log as the entries of a run, in our canonical form: no two have the same cursor."""
    entries, pid = [], 70
    for number, row in enumerate(data.decode().splitlines()):
        rank = re.search(r" PP(\d)\] ", row)
        pid = 70 + int(rank[1]) if rank else pid
        entry = {
            "__CURSOR": f"s=b2613c;i={number:x};x={number * 2654435761 & 0xFFFFFFFF:x}",
            "__REALTIME_TIMESTAMP": str(1_778_594_400_000_000 + number),
            "_PID": str(pid),
            "SYSLOG_IDENTIFIER": "python3",
            "MESSAGE": row,
            "_SYSTEMD_INVOCATION_ID": "c83a8d",
        }
        entries.append(json.dumps(entry))
    return "\n".join((*entries, "")).encode()


def told(incidents: tuple[Incident, ...]) -> list[object]:
    """All but the ranks: one that joins in when everything that it says is known is not noticed."""
    return [
        [(fault.type, fault.message, fault.count, fault.frames, fault.role) for fault in incident.faults]
        for incident in incidents
    ]


@pytest.mark.slow
@needs_hyperscan
@pytest.mark.usefixtures("often")
def test_what_is_passed_over_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them: TRIAGE_FUZZ=10000."""
    for seed in range(int(os.environ.get("TRIAGE_FUZZ", many(150)))):
        data = log(random.Random(seed))
        for form in (data, journal(data)):
            sources = [LogSource("log", form)]
            assert told(read_incidents(sources)) == told(in_whole(sources, monkeypatch)), f"seed {seed}"


@needs_hyperscan
@pytest.mark.usefixtures("often")
def test_a_new_fault_in_the_middle_of_known_ones_is_found() -> None:
    known = (STAMP % (1, 1, 0) + TRACEBACK).format("a", 7)
    new = (STAMP % (2, 2, 3) + TRACEBACK).format("new", 7)
    (incident,) = read_incidents([LogSource("log", (START + known * 500 + new + known * 500).encode())])
    assert [(fault.message, fault.count) for fault in incident.faults] == [
        ("a number 7", 1000),
        ("new number 7", 1),
    ]
    assert sorted(incident.faults[1].ranks) == ["PP3"]


@needs_hyperscan
@pytest.mark.usefixtures("often")
def test_another_run_begins_anew() -> None:
    known = (STAMP % (1, 1, 0) + TRACEBACK).format("a", 7) * 500
    (incident,) = read_incidents([LogSource("log", (START + known + START + known).encode())])
    assert (incident.count, incident.faults[0].count) == (2, 500)


SAME = Repeats().shape(b"", b"[2026-05-12 14:03:59 PP3] ValueError: x1")


@pytest.mark.parametrize(
    ("before", "row", "same"),
    [
        (b"", b"[2026-05-12 15:07:01 PP3] ValueError: x22", True),
        (b"", b"[2026-05-12 14:03:59 PP4] ValueError: x1", False),
        (b"", b"[2026-05-12 14:03:59 PP33] ValueError: x1", False),
        (b"    g()", b"[2026-05-12 14:03:59 PP3] ValueError: x1", False),
        (b"", b"[2026-05-12 14:03:59 PP3] ValueError: y1", False),
    ],
)
def test_numbers_are_equal_but_for_those_of_ranks(before: bytes, row: bytes, same: bool) -> None:
    assert (Repeats().shape(before, row) == SAME) is same


@pytest.mark.parametrize(
    "label", [b"python[%d]: x", b"(Worker rank=%d) x", b"(Ray pid=%d) x", b"[rank%d]: x", b"%d: x"]
)
def test_who_wrote_a_line_is_no_number(label: bytes) -> None:
    assert Repeats().shape(b"", label % 12) != Repeats().shape(b"", label % 13)


def test_of_an_entry_of_a_journal_its_place_and_time_say_nothing() -> None:
    said = b"[2026 PP1] x 1\nx 2\n[2026 PP1] x 3\n[2026 PP1] y 3\n[2026 PP2] x 1\nx 2\n"
    rows = journal(said).splitlines()
    one, continued, same, other, _, continued_by_another = (Repeats().shape(b"", row) for row in rows)
    assert (one == same, one == other, continued == continued_by_another) == (True, False, False)


def test_known_is_what_was_said_often() -> None:
    known = Repeats()
    for _ in range(OFTEN):
        assert not known.knows(7)
        known.learn(7)
    assert known.knows(7)
    known.forget()
    assert not known.knows(7)


@pytest.mark.parametrize("row", [b"x" * 5000, b"(Ray pid=7) x [repeated 7x across cluster]"])
def test_lines_that_are_always_read(row: bytes) -> None:
    known = Repeats()
    for _ in range(2 * OFTEN):
        known.learn(known.shape(b"", row))
    assert not known.knows(known.shape(b"", row))
