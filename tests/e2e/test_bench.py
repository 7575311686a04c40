"""Layouts on a real machine: measured under a drop-in, and the unit as it was, whatever happens."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from examples.story.prepare import SERVICE
from examples.story.setup import prepare
from examples.story.stage import HOST, UNIT, machine
from triage.hosts import ConnectionOptions, open_connection
from triage.verify.dropin import DIRECTORY, DropIn

BRIEF = ("--requests", "2", "--repeats", "2", "--concurrency", "2", "--max-tokens", "16")
ODD = ("odd name", "a b", '{"x": "$HOME"}', "100%", "back\\slash", "new\nline", "ünï", "")


@pytest.fixture
def stage(rootfs, tmp_path):
    prepare(SERVICE)
    with machine(tmp_path / "state") as stage:
        yield stage


@pytest.fixture
def connection(stage, monkeypatch):
    monkeypatch.setenv("TRIAGE_SSH_CONFIG", stage.environment["TRIAGE_SSH_CONFIG"])
    options = ConnectionOptions(ssh_config=Path(stage.environment["TRIAGE_SSH_CONFIG"]))
    connection = open_connection(HOST, options)
    yield connection
    connection.close()


def is_as_it_was(stage) -> bool:
    listed = stage.box.run(["ls", "-A", f"{DIRECTORY}/{UNIT}.d"], check=False).stdout
    return listed == "" and "--pp-size 8" in stage.property("ExecStart")


@pytest.mark.timeout(300)
def test_layouts_are_measured_and_the_unit_is_as_it_was(stage):
    assert stage.start_and_crash().startswith("failed")
    refused = stage.run("bench", HOST, "--layouts", "pp8,tp1", *BRIEF)
    assert (refused.returncode, is_as_it_was(stage)) == (4, True)

    done = stage.run("bench", HOST, "--layouts", "pp8,tp1", "--yes", *BRIEF, "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    died, ran = found["layouts"]
    assert died["cause"].startswith("confirmed: the attention backend asks this pipeline stage for layer 0")
    assert (died["verification"]["verdict"], ran["verification"]["start"]["ready"]) == ("failed", True)
    assert (found["best"], found["reason"]) == ("tp1", "only tp1 became ready and answered every request")
    assert is_as_it_was(stage)
    assert stage.property("ActiveState") in ("inactive", "failed")  # as before
    assert stage.box.run(["systemctl", "list-timers", "--no-legend", "triage-*"]).stdout == ""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("later", [0.0, 0.3, 4.0])
def test_ctrl_c_leaves_it_as_it_was(stage, later: float):
    """Twice, `later` seconds after the drop-in is there: the second one does not cut the restoring short."""
    stage.start_and_crash()
    words = [sys.executable, "-m", "triage", "bench", HOST, "--layouts", "tp1", "--yes", *BRIEF]
    with subprocess.Popen(words, env=stage.environment, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while is_as_it_was(stage):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
        time.sleep(later)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
    assert said == f"interrupted; the command of {UNIT} is as it was\n"
    assert process.returncode in (
        130,
        -signal.SIGINT,
    )  # the latter where the second one comes at the very end
    assert is_as_it_was(stage)
    assert stage.box.run(["systemctl", "list-timers", "--no-legend", "triage-*"]).stdout == ""


@pytest.mark.timeout(120)
def test_the_host_takes_the_drop_in_away_when_nobody_comes_back(stage, connection):
    dropin = DropIn(connection, UNIT, "stop")
    dropin.write("/bin/sleep", ("sleep", "600"), limit=3)
    assert stage.property("ExecStart").startswith("{ path=/bin/sleep")
    deadline = time.monotonic() + 60
    while not is_as_it_was(stage):
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.timeout(120)
def test_arguments_arrive_as_they_are(stage, connection):
    """As systemd runs them: variables are its own business, so `$HOME` in quotes stays what it is."""
    dropin = DropIn(connection, UNIT, "stop")
    script = "import sys, time; print(sys.argv[1:], flush=True); time.sleep(600)"
    dropin.write("/usr/bin/python3", ("python3", "-c", script, *ODD), limit=100)
    stage.box.run(["systemctl", "start", UNIT])
    deadline = time.monotonic() + 30
    while "odd name" not in (log := stage.box.run(["journalctl", "-u", UNIT, "-o", "cat"]).stdout):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert repr(list(ODD)) in log
    dropin.remove()
    assert is_as_it_was(stage)
