"""A host whose programs lie: endless, slow, deeply nested, or made to become a command or a screen."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import TRIAGE, triage
from tests.evidence.conftest import exec_start, ps_text, unit_text
from tests.hosts.conftest import Server, start_sshd
from tests.hosts.fakes import put_programs
from triage.evidence.catalogue import (
    CATALOGUE,
    ClusterContainers,
    ContainerLog,
    Journal,
    JournalWindows,
    KernelLog,
    NodeContainers,
    PodLog,
    Processes,
    ReadFile,
    RotatedLog,
    TailFile,
    TailLog,
)
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection

PROGRAMS = ("systemctl", "busctl", "ps", "nvidia-smi", "journalctl", "python", "python3")
SERVE = ("/opt/venv/bin/python", "-m", "sglang.launch_server")
MEBI = 1 << 20


def on_path(directory: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"}


MEASURED = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def test_endless_answers_cost_little_and_are_called_endless(tmp_path: Path) -> None:
    put_programs(tmp_path / "bin", dict.fromkeys(PROGRAMS, "exec cat /dev/urandom"))
    argv = [sys.executable, "-c", MEASURED, *TRIAGE, "diagnose", "local"]
    environment = on_path(tmp_path / "bin")
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 3, done.stderr
    assert "longer than 8 MiB" in done.stderr
    assert int(done.stderr.split()[-1]) < 600 * 1024  # KiB


@pytest.mark.parametrize("serves", [True, False])
def test_a_list_that_never_ends_is_called_cut(tmp_path: Path, serves: bool) -> None:
    words = SERVE if serves else ("/bin/sleep", "9")
    (tmp_path / "unit").write_text(unit_text("kimi.service", ExecStart=exec_start(*words)))
    (tmp_path / "ps").write_text(ps_text((1, 0, "root", "/sbin/init")))
    put_programs(
        tmp_path / "bin",
        {
            "systemctl": f"cat {tmp_path}/unit; yes Id=other.service",
            "ps": f"cat {tmp_path}/ps",
            "journalctl": "echo __REALTIME_TIMESTAMP=1795969341368758; echo MESSAGE=ok; echo",
        },
    )
    done = triage("diagnose", "local", "--format", "json", env=on_path(tmp_path / "bin"))
    assert done.returncode == (0 if serves else 3), done.stderr
    told = json.loads(done.stdout)["notes"] if serves else [done.stderr]
    assert "service-units: the answer was cut (it is longer than 8 MiB)" in told[0]


def test_every_question_has_a_limit_that_fits_it() -> None:
    logs = (Journal, JournalWindows, KernelLog, TailFile, TailLog, RotatedLog, ContainerLog, PodLog)
    clusters = (NodeContainers, ClusterContainers)  # every pod's whole description
    assert all(query.limit <= 8 * MEBI for query in CATALOGUE if not isinstance(query, (*logs, *clusters)))


def test_slow_bytes_end_with_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_programs(tmp_path / "bin", {"ps": "while :; do printf x; sleep 0.1; done"})
    monkeypatch.setenv("PATH", on_path(tmp_path / "bin")["PATH"])
    monkeypatch.setattr(Processes, "timeout", 1.0)
    answer = LiveEvidence(open_connection("local")).ask(Processes())
    assert answer.value is None
    assert "within 1 s" in answer.missing


DEEP = "[" * 100_000


@pytest.mark.parametrize("deep", [DEEP + "]" * 100_000, DEEP, '{"data":' + "[" * 500 + "]" * 500 + "}"])
def test_answers_that_are_nested_too_deeply_are_no_answers(tmp_path: Path, deep: str) -> None:
    (tmp_path / "deep").write_text(deep)
    (tmp_path / "message").write_text(f"MESSAGE={deep}\n")
    python = tmp_path / "python"
    unit = unit_text("kimi.service", ActiveState="failed", ExecStart=exec_start(str(python), *SERVE[1:]))
    (tmp_path / "unit").write_text(unit)
    (tmp_path / "ps").write_text(ps_text((1, 0, "root", "/sbin/init")))
    put_programs(tmp_path, {"python": f"cat {tmp_path}/deep"})
    put_programs(
        tmp_path / "bin",
        {
            "systemctl": f"cat {tmp_path}/unit",
            "busctl": f"cat {tmp_path}/deep",
            "ps": f"cat {tmp_path}/ps",
            "journalctl": f"echo __REALTIME_TIMESTAMP=1795969341368758; cat {tmp_path}/message",
        },
    )
    done = triage("diagnose", "local", "--format", "json", env=on_path(tmp_path / "bin"))
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["deployment"]["python"] == str(python)


def test_names_neither_steer_the_terminal_nor_become_commands(server: Server, tmp_path: Path) -> None:
    pwned = tmp_path / "pwned"
    evil = f"a$(touch {pwned})`touch {pwned}`;touch {pwned}\x1bc\x9b31m.service"
    unit = unit_text(evil, ActiveState="failed", ExecStart=exec_start(f"$(touch {pwned})/python", *SERVE[1:]))
    (tmp_path / "unit").write_text(unit)
    (tmp_path / "ps").write_text(ps_text((1, 0, "root", "/sbin/init")))
    log = f"MESSAGE=\x1b]0;title\x07 `touch {pwned}` $(touch {pwned}); Traceback (most recent call last):\\n"
    (tmp_path / "log").write_text(f"__REALTIME_TIMESTAMP=1795969341368758\n{log}\n")
    bin = put_programs(
        tmp_path / "bin",
        {
            "systemctl": f"cat {tmp_path}/unit",
            "ps": f"cat {tmp_path}/ps",
            "journalctl": f"cat {tmp_path}/log",
        },
    )
    server.stop()
    hostile = start_sshd(server.directory, server.home, f"SetEnv PATH={bin}:/usr/bin:/bin")
    try:
        hostile.trust()
        hostile.alias()
        for words in (
            ("diagnose", "box"),
            ("diagnose", "box", "--unit", evil),
            ("diagnose", "box", "--unit", "-x"),
        ):
            done = triage(*words, "-F", str(hostile.config), env={**os.environ, "HOME": str(server.home)})
            assert (done.returncode, "sglang" in done.stdout) == (1, True), done.stderr  # it failed
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr)
            assert not pwned.exists()
    finally:
        hostile.stop()


def test_a_path_that_leaves_the_tree_is_not_read(tmp_path: Path) -> None:
    from triage.evidence.model import Deployment
    from triage.patching.evidence_tree import EvidenceTree
    from triage.rules.context import module_of

    root = tmp_path / "site-packages" / "sglang"
    root.mkdir(parents=True)
    (root.parent / "secret.py").write_text("password = 1\n")
    file = f"{root}/../secret.py"
    evidence = LiveEvidence(open_connection("local"))
    tree = EvidenceTree(evidence, str(root))
    assert tree.read(module_of(file, Deployment("x", package_root=str(root)))) is None
    assert not [each for each in evidence.recorded if each.key.startswith(ReadFile.name)]
