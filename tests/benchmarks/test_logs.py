"""How fast a large log is read, against `rg -f` with the same patterns and a line-by-line `re` version.

Figures and ratios are printed, never asserted. TRIAGE_BENCH_MB=1024 for the full size.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from triage.logs.reading import places

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

SIZE = int(os.environ.get("TRIAGE_BENCH_MB", "64")) << 20
RUNS = 3
NAIVE = 4 << 20  # bytes: more would only take longer
STORY = Path(__file__).parents[1] / "corpus" / "sglang-0.5.11-pp8-triton" / "log"
READ = "import sys; from triage.logs import *; print(len(read_incidents([open_log(sys.argv[1])])))"

TRACEBACK = (
    b"[2026-05-12 14:03:59 PP%d] Scheduler hit an exception: Traceback (most recent call last):\n"
    b'  File "/opt/sglang/srt/a.py", line 3, in f\n    g()\nValueError: x%d\n'
)
NESTED = b"2026-06-24T12:05:21.085308861Z stderr F May 12 14:03:59 gpu01 python[75]: " * 3


def healthy(number: int) -> bytes:
    """A decode statistic of a rank, and now and then a line of the access log."""
    stamp = b"2026-05-12 14:%02d:%02d" % (number // 60 % 60, number % 60)
    line = (
        b"[%s PP%d TP0] Decode batch. #running-req: %d, #token: %d, token usage: 0.%02d, cuda graph: True, "
        b"gen throughput (token/s): %d.%02d, #queue-req: 0\n"
    ) % (stamp, number % 8, number % 64, number * 7919 % 99_991, number % 100, number % 999, number % 97)
    if number % 3 == 0:
        line += b'[%s] INFO:     10.0.0.8:%d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' % (
            stamp,
            20_000 + number % 40_000,
        )
    return line


WORST: dict[str, Callable[[int], bytes]] = {
    "tracebacks": lambda number: TRACEBACK % (number % 8, number),
    "one fault in every line": lambda number: (
        b"[2026-05-12 14:03:59 PP%d] ValueError: x %d\n" % (number % 8, number)
    ),
    "ranks": lambda number: b"[2026-05-12 14:03:59 PP%d] ValueError: x\n" % number,
    "nested prefixes": lambda number: NESTED + b"ERROR 01-07 00:15:34 [a.py:1] x%d\n" % number,
    "a place in every 40 KB": lambda number: (
        b"Error: x\n" if number % 1000 == 0 else b"[2026-05-12 14:03:59 PP%d] Decode.\n" % (number % 8)
    ),
}


GROWING = {"no fault": healthy, **WORST, "one line": lambda number: b"abc 0123456789 " * 100}


def write(path: Path, size: int, line: Callable[[int], bytes], end: bytes = b"") -> Path:
    with path.open("wb") as file:
        number = 0
        while file.tell() < size:
            file.write(b"".join(map(line, range(number, number + 10_000))))
            number += 10_000
        file.write(end)
    return path


def measured(command: list[str]) -> tuple[float, float, float, str]:
    """Wall and CPU seconds, MB of memory at most, and what it printed."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        said = running.stdout.read().strip()
        _, status, usage = os.wait4(running.pid, 0)
        wall = time.perf_counter() - start
        running.returncode = os.waitstatus_to_exitcode(status)
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, said


def show(name: str, size: int, figures: tuple[float, float, float, str], reference: float = 0.0) -> float:
    wall, processor, memory, said = figures
    ratio = f"{processor / reference:6.1f}x" if reference else " " * 7
    print(
        f"{name:34} {size >> 20:5} MB {wall:8.2f} s {processor:8.2f} s CPU {size / 1e6 / wall:7.0f} MB/s"
        f" {memory:5.0f} MB memory {ratio}  {said}"
    )
    return processor


def naive(path: str) -> None:
    """What one would write first: every line, every pattern."""
    patterns = [re.compile(pattern.encode()) for pattern in places.patterns()]
    with Path(path).open("rb") as file:
        print(sum(any(pattern.search(line) for pattern in patterns) for line in file))


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path)


def test_logs(room: Path) -> None:
    found = [*places.patterns(), *places.patterns_in_values()]
    (room / "patterns").write_text("".join(f"{pattern}\n" for pattern in found))
    print(f"\n{len(found)} patterns; the last column is the CPU time against triage's own")
    log = write(room / "log", SIZE, healthy)
    size = log.stat().st_size
    read = [sys.executable, "-c", READ, str(log)]
    own = min((measured(read) for _ in range(RUNS)), key=lambda figures: figures[1])
    reference = show("triage, no fault", size, own)
    show("cat >/dev/null", size, measured(["sh", "-c", f"cat '{log}' | cat >/dev/null"]), reference)
    if shutil.which("rg"):
        rg = ["rg", "--text", "--no-unicode", "--count", "-f", str(room / "patterns"), str(log)]
        show("rg -f", size, min((measured(rg) for _ in range(RUNS)), key=lambda it: it[1]), reference)
    else:
        print("rg is not installed: apt-get install ripgrep")
    few = write(room / "few", min(NAIVE, SIZE), healthy)
    code = (
        f"from pathlib import Path; from tests.benchmarks.test_logs import naive; naive(Path({str(few)!r}))"
    )
    figures = measured([sys.executable, "-c", code])
    show("re, line by line", few.stat().st_size, figures, reference * few.stat().st_size / size)
    with log.open("ab") as file:
        file.write(STORY.read_bytes())
    show("triage, a crash at the end", log.stat().st_size, measured(read), reference)


def test_growth(room: Path) -> None:
    """The same log at several sizes: the cost of a byte does not grow. The last column is the CPU time of a
    byte against that in the log an eighth as large."""
    print()
    for name, line in {
        "no fault": healthy,
        **WORST,
        "one line": lambda number: b"abc 0123456789 " * 100,
    }.items():
        before = 0.0
        for size in (SIZE // 8, SIZE):
            log = write(room / "log", size, line)
            figures = measured([sys.executable, "-c", READ, str(log)])
            before = show(name, log.stat().st_size, figures, 8 * before)
