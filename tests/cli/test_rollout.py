"""A playbook on several hosts, each this machine under another name."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.test_fleet import Fleet
from tests.cli.test_fleet import fleet as fleet  # a fixture
from tests.hosts.conftest import server as server  # a fixture
from triage.cli.options import Format
from triage.cli.rollout import roll_out_on
from triage.playbook.model import Playbook

HARMLESS = """
name: harmless
description: Reaches each host, and works something out.
vars: {word: null}
steps:
  - {name: Look, do: set, with: {seen: "{{ host }} {{ word }}"}, register: seen}
"""


@pytest.fixture
def harmless(tmp_path: Path) -> str:
    (tmp_path / "harmless.yaml").write_text(HARMLESS)
    return str(tmp_path / "harmless.yaml")


def test_it_runs_in_waves_with_the_options_that_were_given(fleet: Fleet, harmless: str):
    for name in ("a1", "a2", "a3"):
        fleet.add(name)
    done = fleet.run(
        "run", harmless, "a[1:3]", "--wave", "100", "--var", "word=x", "--yes", "--format", "json"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [[run["host"] for run in wave] for wave in found["waves"]] == [["a1"], ["a2", "a3"]]
    assert found["waves"][1][1]["run"]["steps"][0]["data"] == {"seen": "a3 x"}


def test_it_stops_after_a_host_that_fails_and_says_who_was_left_alone(fleet: Fleet, harmless: str):
    fleet.add_ill("b1")
    for name in ("b2", "b3"):
        fleet.add(name)
    done = fleet.run("run", "diagnose-only", "b[1:3]", "--yes")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "wave 1 of 3: b1"
    assert "b1: exit code 1: Report the incident:" in done.stdout
    assert done.stdout.splitlines()[-1] == "stopped; not touched: b2, b3"


def test_nothing_is_begun_without_consent(fleet: Fleet, harmless: str):
    for name in ("c1", "c2"):
        fleet.add(name)
    done = fleet.run("run", harmless, "c1,c2", "--var", "word=x")
    assert (done.returncode, done.stdout) == (4, "")
    assert "nobody agreed to it" in done.stderr


def test_of_several_hosts_a_report_is_one_page(fleet: Fleet, harmless: str, tmp_path: Path):
    for name in ("d1", "d2"):
        fleet.add(name)
    page = tmp_path / "page.html"
    done = fleet.run("run", harmless, "d1,d2", "--var", "word=x", "--yes", "--report", str(page))
    assert done.returncode == 0, done.stderr
    assert page.read_text().count("d2 x") >= 1


# Not a shell: dash can lose a signal that comes while it starts a child.
PROCESS = """\
import os, signal, sys, time
me, host = sys.argv[0], sys.argv[-1]
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
if host == "done":
    print('{"schema": "triage.run/1", "reason": ""}')
elif host == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif host == "garbage":
    print('{"schema": [')
    print("why", file=sys.stderr)
elif host in ("hangs", "cut"):
    if host == "hangs":
        open(f"{me}.up", "w").close()
    else:
        while not os.path.exists(f"{me}.up"):
            time.sleep(0.05)
        os.kill(os.getppid(), signal.SIGINT)
    signal.sigwait([signal.SIGINT])
    with open(f"{me}.ended", "a") as file:
        print(host, file=file)
    sys.exit(130)
else:
    with open(f"{me}.words", "w") as file:
        print(*sys.argv[1:], file=file)
"""


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Takes the place of the process of a host, and does what the host's name says."""
    path = tmp_path / "process"
    path.write_text(f"#!{sys.executable}\n{PROCESS}")
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))
    return path


def roll(*waves: list[str], interrupted: str = ""):
    mine = Playbook("mine.yaml", "mine", "a test", {}, ())
    return roll_out_on(mine, "mine.yaml", waves, True, Format.TEXT, lambda host: host == interrupted)


def test_ctrl_c_ends_every_process_and_says_how_to_go_on(process: Path, capsys):
    with pytest.raises(KeyboardInterrupt):
        roll(["done"], ["hangs", "cut"], ["later"])
    assert sorted(Path(f"{process}.ended").read_text().split()) == ["cut", "hangs"]
    said = "interrupted; done: done. To go on: triage run mine.yaml hangs,cut,later --resume\n"
    assert capsys.readouterr().err == said
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("host", "code", "reason"),
    [("killed", 137, "it ended with exit code 137 and said nothing"), ("garbage", 70, "why")],
)
def test_a_process_without_a_result_is_a_failure(process: Path, host: str, code: int, reason: str):
    result = roll(["done", host], ["later"])
    assert (result.exit_code, result.left) == (code, ("later",))
    assert result.waves[0][1].reason == reason


def test_a_run_that_was_interrupted_is_gone_on_with(process: Path):
    roll(["-odd"], interrupted="-odd")
    assert Path(f"{process}.words").read_text().endswith("--format json --resume -- mine.yaml -odd\n")
