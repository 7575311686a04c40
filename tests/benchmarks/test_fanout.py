"""How long a fleet takes against one host, and against what else asks many hosts at once, in the same run.

32 boxes whose service died of the same fault. triage diagnoses them: it finds the service, reads its run,
confirms the cause in its source, and says it once. ansible, pyinfra and ssh(1) fetch a log: all of the unit's
entries as JSON, or the last 500 lines; what they mean is left to a person. Each asks as many hosts at a time,
and each asks one host alone as well: what of the goal is left to gain is shown by `ssh HOST true`, a login.

Boxes and client share the machine, so the CPU of the boxes is shown as well. Figures are printed; goals are
stated, not asserted. TRIAGE_BENCH_BOXES=8 for a smaller fleet. Needs 4 GB of memory, and PyPI once.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.story.prepare import CACHE
from examples.story.stage import UNIT
from tests.benchmarks.fleet import SERVED, Fleet, fleet
from tests.e2e.box import why_not

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]
BOXES = int(os.environ.get("TRIAGE_BENCH_BOXES", "32"))
FORKS = 8
RUNS = 3
PEERS = {"ansible": "ansible-core", "pyinfra": "pyinfra"}
ENTRIES = f"journalctl --no-pager -u {UNIT} -o json -n {2 * SERVED}"
LINES = f"journalctl --no-pager -u {UNIT} -o short-iso -n 500"
OUR_OWN: Mapping[str, str] = {}  # nothing but the environment that there is
FAULT = "IndexError: list index out of range"


@dataclass(frozen=True)
class Cost:
    """Seconds: of wall time, of CPU here, and of CPU on all boxes together."""

    wall: float
    client: float
    hosts: float


@pytest.fixture(scope="module")
def boxes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    if why_not():
        pytest.skip(why_not())
    with fleet(BOXES, tmp_path_factory.mktemp("fleet")) as made:
        yield made


def test_fan_out(boxes: Fleet, tmp_path: Path) -> None:
    triage = [sys.executable, "-m", "triage", "diagnose", "--inventory", str(boxes.inventory)]
    triage += ["--ssh-config", str(boxes.ssh_config)]
    names = [box.name for box in boxes.boxes]
    one = least(boxes, [*triage, names[0]], told=1)
    all_ = least(boxes, [*triage, "kimi", "--forks", str(FORKS)], told=1)
    rows = {"triage diagnose": (one, all_)}
    for what, command, says in (("all entries", ENTRIES, 1), ("500 lines", LINES, 1), ("a login", "true", 0)):
        alone = fetching(boxes, tmp_path, command, names[:1])
        for name, (argv, environment) in fetching(boxes, tmp_path, command, names).items():
            if not says and name != "ssh":
                continue
            single = least(boxes, *alone[name], told=says)
            rows[f"{name}: {what}"] = (single, least(boxes, argv, environment, told=says * BOXES))
    cores = os.cpu_count() or 1
    print(f"\n{BOXES} boxes, {FORKS} at a time, on {cores} cores; load {os.getloadavg()[0]:.1f}")
    heads = ("one box", "all", "times", "CPU here", "on boxes", "of triage")
    print(f"{'':34} {heads[0]:>8} {heads[1]:>8} {heads[2]:>6} {heads[3]:>9} {heads[4]:>9} {heads[5]:>10}")
    for name, (single, took) in rows.items():
        print(f"{name:34} {single.wall:6.2f} s {took.wall:6.2f} s {took.wall / single.wall:5.1f}x", end=" ")
        print(f"{took.client:7.2f} s {took.hosts:7.2f} s {took.wall / all_.wall:9.2f}x")
    pairs = max(1.0, cores / 2)
    print(f"{BOXES} boxes take {all_.wall / one.wall:.1f} times one box", end="; ")
    print(f"a further box {1000 * pairs * (all_.wall - one.wall) / (BOXES - 1):.0f} ms of a pair of cores")
    print("goal: 32 boxes take at most 3 times one box on a pair of cores")


def fetching(
    boxes: Fleet, place: Path, command: str, names: Sequence[str]
) -> Mapping[str, tuple[Sequence[str], Mapping[str, str]]]:
    """How each of the others is asked to run a command on boxes, and with what environment."""
    place = place / f"{len(names)}"
    place.mkdir(exist_ok=True)
    ssh = f"xargs -P {FORKS} -I HOST ssh -F {boxes.ssh_config} HOST {shlex.quote(command)}"
    found: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
        "ssh": (["sh", "-c", f"printf '%s\\n' {' '.join(names)} | {ssh}"], {})
    }
    if program := install("ansible"):
        (place / "hosts.ini").write_text("\n".join(["[kimi]", *names]))
        shared = f"-F {boxes.ssh_config} -C -o ControlMaster=auto -o ControlPersist=2s"
        environment = {
            "ANSIBLE_SSH_ARGS": shared,  # its own but for how long the connection is kept afterwards
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(place / "control"),
            "ANSIBLE_PYTHON_INTERPRETER": "/usr/bin/python3",  # or it would look for it first
        }
        asked = [program, "kimi", "-i", str(place / "hosts.ini"), "-f", str(FORKS)]
        found["ansible -m command"] = ([*asked, "-m", "command", "-a", command], environment)
        piped = {**environment, "ANSIBLE_PIPELINING": "True"}
        found["ansible, pipelining"] = ([*asked, "-m", "command", "-a", command], piped)
    if program := install("pyinfra"):
        config = {"ssh_config_file": str(boxes.ssh_config)}
        (place / "inventory.py").write_text(f"kimi = {[(name, config) for name in names]!r}\n")
        asked = [program, "-v", "--parallel", str(FORKS), str(place / "inventory.py"), "exec", "--"]
        found["pyinfra exec"] = ([*asked, *shlex.split(command)], {})
    return found


def install(name: str) -> str:
    """A peer in an environment of its own, installed once; "" where that cannot be."""
    place = CACHE / "peers" / PEERS[name]
    program = place / "bin" / name
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", PEERS[name]]
        if subprocess.run(pip, check=False).returncode != 0:
            print(f"{name} could not be installed, and is left out")
            return ""
    return str(program)


def least(boxes: Fleet, argv: Sequence[str], environment: Mapping[str, str] = OUR_OWN, *, told: int) -> Cost:
    """The least of some runs, each figure for itself; the output must have the fault `told` times."""
    took = [cost(boxes, argv, environment, told) for _ in range(RUNS)]
    return Cost(min(c.wall for c in took), min(c.client for c in took), min(c.hosts for c in took))


def cost(boxes: Fleet, argv: Sequence[str], environment: Mapping[str, str], told: int) -> Cost:
    before = boxes.cpu()
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.costs", *argv],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    hosts = boxes.cpu() - before
    assert done.returncode in (0, 1), done.stderr[-2000:]
    assert done.stderr.count(FAULT) >= told, done.stderr[-2000:]
    found = json.loads(done.stdout)
    return Cost(found["wall"], found["cpu"], hosts)
