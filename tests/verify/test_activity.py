"""What a silent service does, on real processes, and on what a host with GPUs prints."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.verify.test_readiness import NOBODY
from triage.hosts.local import LocalConnection
from triage.verify.events import Event, Silent
from triage.verify.service.activity import Activity, Watch, sample
from triage.verify.service.process import ProcessService
from triage.verify.service.readiness import Readiness, restart_and_wait

BUSY = "import time; end = time.time() + 120\nwhile time.time() < end: pass"
BUSY_CHILD = f"""
import subprocess, sys
print("Load weight begin", flush=True)
subprocess.run([sys.executable, "-c", {BUSY!r}])
"""
ASLEEP = 'import time; print("Load weight begin", flush=True); time.sleep(600)'

STAT = """\
1 (systemd) S 0 1 1 0 -1 4194560 1 2 3 4 50 50 0 0 20
70 (python (x) S) R 1 70 70 0 -1 4194560 1 2 3 4 {main} 0 0 0 20
71 (sglang::scheduler) D 70 70 70 0 -1 4194560 1 2 3 4 {child} 100 0 0 20
80 (other) R 1 80 80 0 -1 4194560 1 2 3 4 9999 0 0 0 20
=
/proc/70/io:read_bytes: 0
/proc/71/io:read_bytes: {read}
/proc/80/io:read_bytes: 999999999999
=
{gpus}
"""


def printed(main: int = 0, child: int = 0, read: int = 0, gpus: str = "0\n0") -> str:
    return STAT.format(main=main, child=child, read=read, gpus=gpus)


def test_a_process_counts_with_its_descendants_alone():
    found = sample(printed(main=50, child=150, read=7000, gpus="97\n 3"), (70,), 1.0)
    assert found is not None
    assert (found.cpu, found.read, found.processes, found.gpus) == (3.0, 7000, 2, (97, 3))


def test_what_may_not_be_read_is_not_nothing():
    found = sample(re.sub("/proc/.*\n", "", printed(main=50)), (70,), 1.0)
    assert found is not None
    assert (found.cpu, found.read) == (1.5, None)


@pytest.mark.parametrize("text", ["", "=\n=\n", "70 (x", "70 (x) R 1\n=\n=\n", "\x00\n=\n=\n[N/A]\n"])
def test_what_makes_no_sense_is_not_told(text: str):
    assert sample(text, (70,), 1.0) is None


@pytest.mark.parametrize(
    ("activity", "idle", "words"),
    [
        (Activity(0.001, 0, ()), True, "its processes use no CPU and read nothing"),
        (Activity(0.5, None, ()), False, "its processes use 0.5 cores; what they read may not be known"),
        (Activity(0, 2e8, (0, 0)), False, "its processes use no CPU and read 200 MB/s; GPUs at 0 %"),
        (Activity(8.02, 0, (100, 96)), False, "its processes use 8.0 cores and read nothing; "
         "GPUs at 96 to 100 %, as where ranks wait for each other"),
    ],
)  # fmt: skip
def test_in_words(activity: Activity, idle: bool, words: str):
    assert (activity.idle, str(activity)) == (idle, words)


@pytest.fixture
def busy() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", BUSY]) as process:
        yield process
        process.kill()


def test_a_real_process(busy: subprocess.Popen[bytes]):
    watch = Watch(LocalConnection())
    assert watch.look((busy.pid,), time.monotonic()) is None
    time.sleep(1.0)
    activity = watch.look((busy.pid,), time.monotonic())
    assert activity is not None
    assert not activity.idle
    assert watch.look((), time.monotonic()) is None
    assert watch.look((2**22 + 1,), time.monotonic()) is None


def start(code: str, tmp_path: Path, timeout: float, patience: float = 4.0) -> tuple[Readiness, list[Event]]:
    connection = LocalConnection()
    argv = (sys.executable, "-c", code)
    service = ProcessService(connection, argv, str(tmp_path / "log"), str(tmp_path / "pid"))
    events: list[Event] = []
    try:
        readiness = restart_and_wait(
            service, NOBODY, timeout=timeout, restart_budget=0, on_event=events.append,
            watch=Watch(connection), patience=patience,
        )  # fmt: skip
    finally:
        service.stop()
    return readiness, events


@pytest.mark.slow
def test_one_that_does_nothing_hangs(tmp_path: Path):
    readiness, events = start(ASLEEP, tmp_path, timeout=120)
    assert (readiness.start.ready, readiness.start.died) == (False, False)
    assert readiness.start.failure.startswith("it hangs: no line for ")
    assert readiness.start.failure.endswith(" s, its processes use no CPU and read nothing")
    assert any(isinstance(event, Silent) for event in events)


def test_short_patience_is_not_known_to_be_over_before_it_was_seen(tmp_path: Path):
    readiness, events = start(ASLEEP, tmp_path, timeout=120, patience=0.1)
    assert readiness.start.failure.endswith(" s, its processes use no CPU and read nothing")
    assert len([event for event in events if isinstance(event, Silent)]) == 1


@pytest.mark.slow
def test_one_that_works_in_silence_is_slow(tmp_path: Path):
    readiness, _ = start(BUSY_CHILD, tmp_path, timeout=9)
    assert readiness.start.failure.startswith("not ready after 9 s; the last that it logged")
    assert re.search(r"; its processes use [01]\.\d cores and read ", readiness.start.failure)
