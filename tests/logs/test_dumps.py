"""Where the threads of a process stood: py-spy's dumps, and faulthandler's where nothing died."""

from __future__ import annotations

from triage.logs import read_incidents
from triage.logs.faults.dumps import Snapshot
from triage.logs.model import Fault, LogSource
from triage.logs.reading.reader import read_lines
from triage.logs.streams import Streams

SPIED = """\
Process 31166: /opt/venv/bin/python t.py a
Python v3.11.7 (/opt/python/bin/python3.11)

Thread 31166 (active+gil): "MainThread"
    Holder.f (t.py:5)
        Arguments:
            n: 1
            s: "abc"
    <module> (t.py:7)
    0x7f37b964524a (libc.so.6)
Thread 31168 (idle): "watch dog"
    clock_nanosleep (libc.so.6)
    worker (t.py:2)
    Thread._bootstrap (threading.py:1002)
"""
OLD = """\
Process 7: x
Python v3.8.10 (/usr/bin/python3.8)

Thread 0x7F5C (idle): "MainThread"
    wait (a.py:3)
"""
LATER = """\
Timeout (0:05:00)!
Thread 0x00007f37b8fff6c0 (most recent call first):
  File "/x/threading.py", line 320 in wait
Thread 0x00007f37b9c24740 (most recent call first):
  File "/x/sglang/comm.py", line 8 in recv
  File "/x/sglang/scheduler.py", line 3 in loop
"""
TIMEOUT = (
    "[2026-05-12 14:03:59 PP3] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
)
START = "[2026-05-12 14:01:00] server_args=ServerArgs(model_path='/m', pp_size=8, tp_size=1)\n"


def snapshots(text: str) -> list[Snapshot]:
    streams = Streams()
    lines = read_lines(LogSource("log", text.encode()))
    readings = [reading for line in lines for reading in streams.feed(line)]
    return [each for each in (*readings, *streams.close()) if isinstance(each, Snapshot)]


def initiator(text: str) -> Fault:
    (incident,) = read_incidents([LogSource("log", text.encode())])
    assert incident.initiator is not None
    return incident.initiator


def places(fault: Fault | Snapshot) -> list[tuple[str, int, str]]:
    return [(frame.file, frame.line, frame.function) for frame in fault.frames]


def test_the_main_thread_counts_outermost_first() -> None:
    (snapshot,) = snapshots(SPIED)
    assert snapshot.pid == 31166
    assert places(snapshot) == [("t.py", 7, "<module>"), ("t.py", 5, "f")]


def test_thread_identifiers_of_older_releases() -> None:
    (snapshot,) = snapshots(OLD)
    assert places(snapshot) == [("a.py", 3, "wait")]


def test_the_last_thread_of_faulthandler_is_the_main_one() -> None:
    (snapshot,) = snapshots(LATER)
    assert places(snapshot) == [("/x/sglang/scheduler.py", 3, "loop"), ("/x/sglang/comm.py", 8, "recv")]


def test_two_dumps_one_after_the_other_are_two() -> None:
    assert [each.pid for each in snapshots(SPIED + "\n" + OLD)] == [31166, 7]


def test_a_dump_alone_is_no_incident() -> None:
    assert read_incidents([LogSource("log", (START + SPIED).encode())]) == ()


def test_the_watchdog_stood_where_the_dump_of_its_rank_says() -> None:
    said = "[2026-05-12 14:03:58 PP%d] Pyspy dump for PID %d (py-spy dump  --pid %d):\n"
    other = said % (2, 11, 11) + SPIED.replace("t.py", "sglang/other.py") + "\n"
    own = said % (3, 12, 12) + SPIED.replace("t.py", "sglang/own.py") + "\n"
    fault = initiator(START + other + own + TIMEOUT)
    assert (fault.type, sorted(fault.ranks)) == ("watchdog-timeout", ["PP3"])
    assert places(fault) == [("sglang/own.py", 7, "<module>"), ("sglang/own.py", 5, "f")]
    assert fault.frame == fault.frames[-1]


def test_a_dump_of_another_rank_explains_nothing() -> None:
    said = "[2026-05-12 14:03:58 PP2] Pyspy dump for PID 11 (py-spy dump  --pid 11):\n"
    assert initiator(START + said + SPIED + "\n" + TIMEOUT).frames == ()


def test_a_process_that_says_something_begins_no_dump() -> None:
    fault = initiator(START + "Process 12: it went well\n" + TIMEOUT + "Thread 0x1 is done\n")
    assert fault.type == "watchdog-timeout"
