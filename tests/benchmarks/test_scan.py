"""How fast a whole engine is searched, against semgrep and ast-grep with the same pattern on the same tree.

Figures and ratios are printed, never asserted; that all find the same places is. The two are installed
from PyPI into an environment of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.patching.wheels import WheelTree, wheel

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]

RELEASE = os.environ.get("TRIAGE_BENCH_SGLANG", "0.5.23")
RUNS = 3
PATTERN = "$POOL.get_value_buffer(0)"
# The pattern alone, over every file, as a patch looks for it.
SEARCH = """
import os, sys
from triage.patching.edits import where
for place, _, names in os.walk(sys.argv[1]):
    for name in names:
        if name.endswith(".py"):
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                for site in where([sys.argv[2]], path, file.read()):
                    print(f"{path}:{site.line}")
"""


def measured(command: list[str], home: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds, and what it printed."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "SEMGREP_SEND_METRICS": "off"}
    start = time.perf_counter()
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        said = running.stdout.read()
        _, status, usage = os.wait4(running.pid, 0)
        wall = time.perf_counter() - start
        running.returncode = os.waitstatus_to_exitcode(status)
    assert running.returncode in (0, 1), command
    return wall, usage.ru_utime + usage.ru_stime, said


def show(name: str, figures: tuple[float, float, str], reference: float = 0.0) -> float:
    wall, processor, _ = figures
    ratio = f"{processor / reference:6.1f}x" if reference else ""
    print(f"{name:44} {wall:7.2f} s {processor:7.2f} s CPU {ratio}")
    return processor


def best(command: list[str], home: Path) -> tuple[float, float, str]:
    return min((measured(command, home) for _ in range(RUNS)), key=lambda figures: figures[1])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return WheelTree(wheel("sglang", RELEASE)).unpack(tmp_path_factory.mktemp("tree"), "sglang/")


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with semgrep and ast-grep."""
    place = tmp_path_factory.mktemp("peers")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    command = [place / "bin/python", "-m", "pip", "install", "--quiet", "semgrep", "ast-grep-cli"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip: {done.stderr[-300:]}")
    return place / "bin"


def test_one_pattern(tree: Path, peers: Path, tmp_path: Path) -> None:
    files = list(tree.rglob("*.py"))
    size = sum(path.stat().st_size for path in files)
    print(f"\nsglang {RELEASE}: {len(files)} files, {size / 1e6:.0f} MB; {PATTERN}")
    own = best([sys.executable, "-c", SEARCH, str(tree), PATTERN], tmp_path)
    reference = show("triage, the pattern", own)
    rule = ["run", "--pattern", PATTERN, "--lang", "python", "--json=stream", str(tree)]
    ast_grep = best([str(peers / "ast-grep"), *rule], tmp_path)
    show("ast-grep", ast_grep, reference)
    options = ["scan", "--pattern", PATTERN, "--lang", "python", "--json", "--no-git-ignore", "--metrics=off"]
    limits = ["--max-target-bytes=0", "--timeout=0", "--disable-version-check", str(tree)]
    semgrep = measured([str(peers / "semgrep"), *options, *limits], tmp_path)
    show("semgrep", semgrep, reference)
    found = set(own[2].splitlines())
    theirs = [json.loads(line) for line in ast_grep[2].splitlines()]
    assert found
    assert found == {f"{item['file']}:{item['range']['start']['line'] + 1}" for item in theirs}
    results = json.loads(semgrep[2])["results"]
    assert found == {f"{item['path']}:{item['start']['line']}" for item in results}
    print(f"the same {len(found)} places")


def test_everything(tree: Path, tmp_path: Path) -> None:
    """`triage scan`: every shipped patch and every shape of the class."""
    print()
    command = [sys.executable, "-m", "triage", "scan", str(tree)]
    cold = min((measured(command, tmp_path / str(number)) for number in range(RUNS)), key=lambda it: it[1])
    reference = show("triage scan, nothing known", cold)
    show("triage scan, again", best(command, tmp_path / "0"), reference)
