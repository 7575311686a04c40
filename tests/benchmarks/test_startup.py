"""What a command costs before it does anything, against what nobody can avoid: Python and typer themselves.

Figures are printed, never asserted: they are this machine's, at this moment. Wall time also counts whoever
else uses the machine; CPU time does not.
"""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

import triage

RUNS = 15
ROOT = Path(__file__).resolve().parents[2]
SMALL, STORY = ("tests/corpus/uvicorn-port-in-use/log", "tests/corpus/sglang-0.5.11-pp8-triton/log")
# name -> arguments of the interpreter, exit code, goal in milliseconds
COMMANDS: dict[str, tuple[tuple[str, ...], int, int | None]] = {
    "python -c pass": (("-c", "pass"), 0, None),
    "python -c 'import typer'": (("-c", "import typer"), 0, None),
    "triage --help": (("-m", "triage", "--help"), 0, 150),
    "triage diagnose --log, 7 lines": (("-m", "triage", "diagnose", "--log", SMALL), 1, 400),
    "triage diagnose --log, 160 lines": (("-m", "triage", "diagnose", "--log", STORY), 1, 400),
}


@pytest.mark.benchmark
def test_startup() -> None:
    """One run of each in turn, so that a busy moment falls on all of them; the first round warms up."""
    compileall.compile_dir(Path(triage.__file__).parent, quiet=1)
    walls: dict[str, list[float]] = {name: [] for name in COMMANDS}
    processors: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for number in range(RUNS + 1):
        for name, (arguments, code, _) in COMMANDS.items():
            wall, processor = timed(arguments, code)
            if number:
                walls[name].append(wall)
                processors[name].append(processor)
    bare, peer = (statistics.median(walls[name]) for name in list(COMMANDS)[:2])
    print(f"\n{'median of ' + str(RUNS):34} {'wall ms':>8} {'CPU ms':>7} {'/python':>8} {'/typer':>7}  goal")
    for name, (_, _, goal) in COMMANDS.items():
        wall, processor = statistics.median(walls[name]), statistics.median(processors[name])
        times = f"{wall * 1000:8.0f} {processor * 1000:7.0f} {wall / bare:8.1f} {wall / peer:7.1f}"
        print(f"{name:34} {times}  {'' if goal is None else f'under {goal} ms'}")


def timed(arguments: tuple[str, ...], code: int) -> tuple[float, float]:
    """Seconds of wall and CPU time of one run, which must end with `code`."""
    start = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as running:
        _, status, usage = os.wait4(running.pid, 0)
        wall = time.perf_counter() - start
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode == code, arguments
    return wall, usage.ru_utime + usage.ru_stime
