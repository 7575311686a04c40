"""How fast the failed run is found in a journal of a million entries on a host, against what one would type.

Figures and ratios are printed, never asserted. TRIAGE_BENCH_ENTRIES=100000 for a smaller journal. Needs a
box, and systemd-journal-remote on this machine, which writes the journal.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.benchmarks.test_logs import healthy
from tests.e2e.box import Bind, Box, why_not
from triage.evidence.catalogue import JournalWindows
from triage.evidence.catalogue.journal import FAILED, STARTED, SUCCEEDED, run_matches
from triage.hosts import ConnectionOptions, open_connection
from triage.logs.reading.places import patterns

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

ENTRIES = int(os.environ.get("TRIAGE_BENCH_ENTRIES", "1000000"))
FEW = 10_000  # entries for what would take minutes over all of them
START, STEP = 1_795_900_000, 2000  # the first entry, in seconds; between two, in microseconds
RUNS = 3
REMOTE = Path("/lib/systemd/systemd-journal-remote")
UNIT, RUN = "sglang-kimi.service", "d" * 32
SERVICE = (
    "[Service]\nExecStart=/opt/sglang/bin/python -m sglang.launch_server --model-path /srv/k2 --pp-size 8\n"
)
CRASH = """\
[2026-05-12 18:03:59 PP{rank}] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/managers/scheduler.py", line 2626, in run_scheduler_process
    scheduler = Scheduler(
  File "/opt/sglang/srt/layers/attention/triton_backend.py", line 120, in __init__
    self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0).shape[-1]
IndexError: list index out of range
"""
_OWN = (
    "_TRANSPORT=stdout\nSYSLOG_IDENTIFIER=python\nPRIORITY=6\nSYSLOG_FACILITY=3\n_UID=996\n_GID=996\n"
    "_COMM=sglang::schedul\n_EXE=/usr/bin/python3.11\n_CAP_EFFECTIVE=0\n"
    f"_SYSTEMD_CGROUP=/system.slice/{UNIT}\n_SYSTEMD_UNIT={UNIT}\n_SYSTEMD_SLICE=system.slice\n"
    f"_SYSTEMD_INVOCATION_ID={RUN}\n_STREAM_ID={'e' * 32}\n"
)


def told_by_systemd(message: str, id: str, more: str = "") -> tuple[int, str, str]:
    fields = f"_TRANSPORT=journal\nSYSLOG_IDENTIFIER=systemd\n_COMM=systemd\nPRIORITY=6\nUNIT={UNIT}\n"
    return 1, message, f"{fields}INVOCATION_ID={RUN}\nMESSAGE_ID={id}\n{more}"


def entries(crashed: bool) -> Iterator[tuple[int, str, str]]:
    """Who wrote each entry, its text, and its other fields."""
    yield told_by_systemd(f"Started {UNIT} - SGLang.", STARTED)
    for number in range(ENTRIES):
        for text in healthy(number).decode().splitlines()[:1]:
            yield 100 + number % 8, text, _OWN
    for rank in range(2, 8) if crashed else ():
        for text in CRASH.format(rank=rank).splitlines():
            yield 100 + rank, text, _OWN
    if crashed:
        yield told_by_systemd(f"{UNIT}: Failed with result 'signal'.", FAILED, "UNIT_RESULT=signal\n")
    else:
        yield told_by_systemd(f"{UNIT}: Deactivated successfully.", SUCCEEDED)


def write_journal(directory: Path, crashed: bool) -> None:
    boot = "b" * 32
    with subprocess.Popen(
        [REMOTE, f"--output={directory}/big.journal", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as importing:
        assert importing.stdin is not None
        for number, (pid, text, fields) in enumerate(entries(crashed)):
            at = number * STEP
            importing.stdin.write(
                f"__REALTIME_TIMESTAMP={START * 1_000_000 + at}\n__MONOTONIC_TIMESTAMP={at}\n"
                f"_BOOT_ID={boot}\n_PID={pid}\n{fields}MESSAGE={text}\n\n"
            )
        importing.stdin.close()
        assert importing.wait() == 0


@pytest.fixture
def box(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Box]:
    if why_not() or not REMOTE.exists():
        pytest.skip(why_not() or "apt-get install systemd-journal-remote")
    (tmp_path / "journal").mkdir()
    write_journal(tmp_path / "journal", crashed=request.param == "crashed")
    files = {f"/etc/systemd/system/{UNIT}": SERVICE}
    with Box("big", binds=[Bind(tmp_path / "journal", "/srv/journal")], files=files) as box:
        kept = "/var/log/journal/$(cat /etc/machine-id)"
        box.run(f"mkdir -p {kept}; ln -s /srv/journal/* {kept}/; systemctl daemon-reload", check=True)
        yield box
    shutil.rmtree(tmp_path / "journal")


def timed(work: Callable[[], float], runs: int = RUNS) -> tuple[float, float]:
    """The shortest of some runs: wall seconds, and the CPU seconds that `work` says it took."""
    took = []
    for _ in range(runs):
        start = time.perf_counter()
        processor = work()
        took.append((time.perf_counter() - start, processor))
    return min(took)[0], min(processor for _, processor in took)


CPU = 'TIMEFORMAT="%U %S"; time'


def cpu(said: str) -> float:
    """What bash's `time` said last."""
    return sum(map(float, said.split()[-2:]))


@pytest.mark.parametrize("box", ["crashed", "healthy"], indirect=True)
def test_journal(box: Box) -> None:
    journal = f"journalctl --no-pager --all {' '.join(run_matches(UNIT, RUN))}"
    query = JournalWindows(UNIT, RUN)
    box.put("/tmp/places", query.stdin())
    box.put("/tmp/pattern", "|".join(f"(?:{pattern})" for pattern in patterns()))

    def typed(line: str) -> Callable[[], float]:
        return lambda: cpu(box.run(f"bash -c '{CPU} ({line})'", timeout=900).stderr)

    def asked() -> float:
        options = ConnectionOptions(ssh_config=box.ssh_config())
        argv = ("bash", "-c", f'{CPU} "$@"', "bash", *query.argv())
        with closing(open_connection(box.name, options)) as connection:
            output = connection.run(argv, stdin=query.stdin(), timeout=600, limit=query.limit)
        packed.append(len(output.stdout))
        query.decode(output)
        return cpu(output.stderr.decode())

    def diagnosed() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "triage", "diagnose", box.name, "-F", str(box.ssh_config()), "-u", UNIT],
            capture_output=True,
            text=True,
        )
        assert done.returncode in (0, 1), done.stderr
        told.append(f"exit code {done.returncode}, {done.stdout.splitlines()[0]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    packed: list[int] = []
    told: list[str] = []
    whole, own = timed(diagnosed)
    rows = {
        "its question of the journal": timed(asked),
        "journalctl | grep -E, the same places": timed(typed(f"{journal} -o cat | grep -acEf /tmp/places")),
        "journalctl --grep, two words": timed(typed(f'{journal} -o cat --grep "Traceback|Error"')),
        "journalctl -o export | wc": timed(typed(f"{journal} -o export | wc -c"), 1),
        "journalctl -o json, over ssh": timed(typed(f"{journal} -o json"), 1),
    }
    until = START + FEW * STEP // 1_000_000
    few = timed(typed(f'{journal} -o cat --until=@{until} --grep "$(cat /tmp/pattern)"'), 1)
    scale = ENTRIES / FEW
    rows["journalctl --grep, the same places"] = (few[0] * scale, few[1] * scale)  # it would take minutes
    print(f"\n{ENTRIES} entries, {packed[-1] / 1e3:.0f} kB sent; {told[-1]}")
    print(f"{'':40} {'wall':>8}   {'CPU there':>9} {'':8} {'wall of triage':>8}")
    print(f"{'triage diagnose':40} {whole:8.2f} s {own:9.2f} s here")
    for name, (wall, processor) in rows.items():
        print(f"{name:40} {wall:8.2f} s {processor:9.2f} s {whole / wall:12.2f}x")
