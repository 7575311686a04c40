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
from triage.common.errors import RefusedError
from triage.evidence.catalogue.systemd import ExecCommand
from triage.hosts import ConnectionOptions, open_connection
from triage.verify.service.dropin import DIRECTORY, DropIn, command_of

BRIEF = ("--requests", "2", "--repeats", "2-2", "--concurrency", "2", "--max-tokens", "16")
SAY = """#!/usr/bin/python3
import json, os, sys
known = {name: os.environ.get(name) for name in ("EXTRA", "NAME", "HOME")}
print(json.dumps([sys.orig_argv, os.getuid(), os.getppid() == 1, known]), flush=True)
"""
SAYING = """[Service]
Type=oneshot
User=ops
StandardOutput=truncate:/run/said-%n
EnvironmentFile=-/etc/say.env
ExecStartPre=/bin/sh -c 'exit 0'
ExecStart={line}
"""
LINES = (
    r"""/usr/bin/python3 /usr/local/bin/say 'a b' "c \"d\" " ünï '' \x41 'new\nline' ';' 'back\\slash'""",
    r"""/usr/bin/python3 /usr/local/bin/say %n %% 100%% '{"x": "y"}' $$HOME ${NAME} $EXTRA x${NAME}y""",
    "-/usr/bin/python3 /usr/local/bin/say",
    ":/usr/bin/python3 /usr/local/bin/say $EXTRA ${NAME} $$",
    "+/usr/bin/python3 /usr/local/bin/say",
    "!/usr/bin/python3 /usr/local/bin/say",
    "@/usr/bin/python3 another-name /usr/local/bin/say",
    "-:+@/usr/bin/python3 another-name /usr/local/bin/say $EXTRA",
    r"""/bin/bash -c 'cd / && exec python3 /usr/local/bin/say "$$HOME" "${NAME}" $EXTRA "100%%"'""",
)


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
    dropin.write(ExecCommand("/bin/sleep", ("sleep", "600"), frozenset()), limit=8)
    end = time.monotonic() + 15
    while time.monotonic() < end:  # longer than its time, which begins anew
        dropin.renew()
        assert stage.property("ExecStart").startswith("{ path=/bin/sleep")
        time.sleep(2.5)  # systemd starts nothing more than five times in ten seconds
    deadline = time.monotonic() + 60
    while not is_as_it_was(stage):
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.timeout(300)
def test_what_was_measured_outlives_a_kill(stage):
    """The drop-in is still there, for its timer has some time left; the next bench says how to end that."""
    options = ("--unit", UNIT, "--layouts", "tp1,tp2", "--yes", *BRIEF)
    words = [sys.executable, "-m", "triage", "bench", HOST, *options]
    kept = Path(stage.environment["XDG_STATE_HOME"]) / "triage" / "benches" / f"{UNIT}@{HOST}.json"
    with subprocess.Popen(
        words, env=stage.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(kept.exists, process)
        wait_until(lambda: "--tp-size 2" in stage.property("ExecStart"), process)
        process.kill()
    found = json.loads(kept.read_text())
    ready = [(one["name"], one["verification"]["start"]["ready"]) for one in found["layouts"]]
    assert ready == [("tp1", True)]
    assert (found["best"], found["left"]) == ("tp1", ["tp2"])
    refused = stage.run("bench", HOST, *options)
    assert refused.returncode == 4
    command = f"systemctl start triage-restore-{UNIT.translate(str.maketrans('-.', '__'))}.service"
    assert command in refused.stderr
    assert f"at once by: {command}" in stage.run("diagnose", HOST, "--unit", UNIT).stdout
    stage.box.run(command)
    wait_until(lambda: is_as_it_was(stage))


@pytest.mark.timeout(120)
def test_a_command_means_the_same_in_the_drop_in(stage, connection, tmp_path):
    """Prefixes, quotes, specifiers, variables, shells: what the service sees of them."""
    units = {f"say{number}.service": line for number, line in enumerate(LINES)}
    (tmp_path / "units").mkdir()
    for unit, line in units.items():
        (tmp_path / "units" / unit).write_text(SAYING.format(line=line))
    several = SAYING.format(line="/bin/true\nExecStart=/bin/true")
    (tmp_path / "units" / "several.service").write_text(several)
    stage.box.put("/usr/local/bin/say", SAY)
    stage.box.put("/etc/say.env", "EXTRA=--one '--two three'\nNAME=a b\n")
    stage.box.put("/etc/systemd/system", tmp_path / "units")
    stage.box.run(["systemctl", "daemon-reload"])

    own = said(stage.box, units)
    dropins = {unit: DropIn(connection, unit, "stop") for unit in units}
    for unit, dropin in dropins.items():
        dropin.write(command_of(connection, unit), limit=100)
    assert said(stage.box, units) == own
    for dropin in dropins.values():
        dropin.remove()
    with pytest.raises(RefusedError, match="several commands"):
        command_of(connection, "several.service")


def said(box, units) -> dict[str, str]:
    """What each service printed of its arguments, its user and its environment."""
    each = "systemctl restart $unit; cat /run/said-$unit; rm /run/said-$unit"
    told = box.run(f"for unit in {' '.join(units)}; do {each}; done", check=True).stdout.splitlines()
    assert len(told) == len(units)
    return dict(zip(units.values(), told, strict=True))


def wait_until(is_so, process=None) -> None:
    """As long as the process runs, where there is one."""
    deadline = time.monotonic() + 150
    while not is_so():
        assert process is None or process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.1)
