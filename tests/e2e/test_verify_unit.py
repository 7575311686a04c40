"""Verification of a real systemd unit over ssh: restart, journal, phases, death, crash loop, permissions."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.cli.command import triage
from tests.e2e.box import Box
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts import options
from triage.hosts.connection import Connection
from triage.hosts.opening import open_connection
from triage.verify.events import Event, LogLine, PhaseReached, Restarting, ServiceStarted, ignore
from triage.verify.history import History
from triage.verify.load.client import client_of
from triage.verify.load.engine_tool import measure
from triage.verify.load.plan import LoadShape
from triage.verify.model import Start
from triage.verify.service.activity import Watch
from triage.verify.service.drain import running
from triage.verify.service.dropin import DropIn, command_of
from triage.verify.service.exclusion import alone
from triage.verify.service.readiness import restart_and_wait
from triage.verify.service.systemd import SystemdService
from triage.workflows.verify import Options, verify

SERVER = Path(__file__).parents[1] / "verify" / "server.py"
UNIT = """\
[Unit]
Description=A stand-in engine
StartLimitIntervalSec=300
StartLimitBurst=2
[Service]
Environment=START=ready MODE=ok
EnvironmentFile=-/etc/engine.env
ExecStart=/usr/bin/python3 /opt/server.py {port} ${{MODE}} ${{START}}
{restart}
"""
TOLD = """\
[Service]
Type={kind}
PIDFile=/run/told.pid
Environment=PYTHONPATH=/opt/engine START=ready
EnvironmentFile=-/etc/engine.env
ExecStart=/usr/bin/python3 -m sglang.launch_server --port {port}
"""
# A service that notifies, or one whose first process ends once the one that it made serves.
LAUNCH = """\
import os, socket, sys
sys.path.insert(0, "/opt")
import server

class Telling(server.FakeServer):
    def __enter__(self):
        entered = super().__enter__()
        if "NOTIFY_SOCKET" in os.environ:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
                to.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
        os.write(write, b"ready")
        return entered

read, write = os.pipe()
child = 0 if "NOTIFY_SOCKET" in os.environ else os.fork()
if child:
    os.close(write)
    os.read(read, 1)
    with open("/run/told.pid", "w") as file:
        file.write(f"{child}\\n")
    sys.exit()
server.FakeServer = Telling
server.main(int(sys.argv[sys.argv.index("--port") + 1]), "ok", os.environ["START"])
"""
LEAVING = """\
[Service]
Type=oneshot
RemainAfterExit=yes
Environment=START=ready MODE=ok WRAP=exec
EnvironmentFile=-/etc/engine.env
ExecStart=/bin/sh -c '${{WRAP}} python3 /opt/server.py {port} ${{MODE}} ${{START}} &'
"""
LEFT = "ls -d /tmp/triage-tool-*; pgrep -fx 'sleep 4711'; pgrep -f '[o]utput-file /tmp/triage-tool-'"
TOOL = "import subprocess; subprocess.run(['sleep', '4711'])"
QUICK = Options(
    timeout=30, requests=2, repeats=2, most_repeats=2, concurrency=2, max_tokens=8, prompt_tokens=8
)


def deployment(box: Box, unit: str = "engine.service") -> Deployment:
    line = box.run(["systemctl", "cat", unit], check=True).stdout
    found = re.search(r"server\.py (\d+)", line)
    assert found
    port = int(found.group(1))
    return Deployment(
        unit, engine="sglang", manager="systemd", unit=unit, python="/usr/bin/python3", port=port
    )


@pytest.fixture
def host(box: Box) -> Box:
    with socket.socket() as probe:  # boxes share this machine's loopback
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    box.put("/opt/server.py", SERVER)
    box.put("/etc/systemd/system/engine.service", UNIT.format(port=port, restart=""))
    box.put(
        "/etc/systemd/system/looping.service", UNIT.format(port=port, restart="Restart=always\nRestartSec=0")
    )
    box.run(["systemctl", "daemon-reload"], check=True)
    return box


@pytest.fixture
def connection(host: Box) -> Iterator[Connection]:
    connection = connect(host)
    yield connection
    connection.close()


def connect(box: Box, user: str = "root", become: bool = False) -> Connection:
    wanted = options.ConnectionOptions(ssh_config=box.ssh_config(), become=become)
    return open_connection(f"{user}@{box.name}", wanted)


def wait_for(box: Box, unit: str, name: str, value: str) -> None:
    for _ in range(150):
        if box.run(["systemctl", "show", "-P", name, unit]).stdout.strip() == value:
            return
        time.sleep(0.2)
    raise AssertionError(f"{name} of {unit} is never {value}")


def ask_slowly(port: int | None, answers: list[bytes]) -> None:
    body = b'{"prompt": "slow", "max_tokens": 1, "stream": false}'
    with contextlib.suppress(OSError), urlopen(f"http://127.0.0.1:{port}/v1/completions", body) as answer:
        answers.append(answer.read())


def wait_tool(box: Box, there: bool) -> None:
    """Until the tool, its child and its directory are there, or none of them is."""
    for _ in range(100):
        found = box.run(LEFT).stdout
        if len(found.split()) == (3 if there else 0):
            return
        time.sleep(0.2)
    raise AssertionError(found)


def end_when_it_runs(box: Box, end: Callable[[Connection], None], connection: Connection) -> None:
    wait_tool(box, True)
    end(connection)


def start(box: Box, how: str, mode: str = "ok", more: str = "") -> None:
    box.put("/etc/engine.env", f"START={how}\nMODE={mode}\n{more}")


def test_a_unit_is_restarted_followed_and_measured(host: Box, connection: Connection, tmp_path: Path):
    box, history, events = host, History(tmp_path), list[Event]()
    first = verify(connection, deployment(box), QUICK, events.append, history=history)
    assert (first.start.ready, first.verdict) == (True, "inconclusive"), first.reason
    phases = [event.phase.name for event in events if isinstance(event, PhaseReached)]
    assert phases == [
        "Load weight begin",
        "Load weight end",
        "KV Cache is allocated",
        "Memory pool end",
        "ready",
    ]
    assert [metrics.completed for metrics in first.metrics] == [2, 2, 2, 2]
    second = verify(connection, deployment(box), QUICK, history=history)
    assert second.start.invocation not in ("", first.start.invocation)
    assert second.sample == first.sample
    assert second.compared_with == first.at
    assert second.verdict in ("better", "same", "worse", "inconclusive")
    shown = box.run(["systemctl", "show", "-P", "InvocationID", "engine.service"]).stdout.strip()
    assert shown == second.start.invocation


def test_a_unit_that_dies_or_hangs_ends_the_wait(host: Box, connection: Connection, tmp_path: Path):
    start(host, "dies")
    for _ in range(3):  # the start limit of the unit, which is two, does not get in the way
        events: list[Event] = []
        result = verify(connection, deployment(host), QUICK, events.append, history=History(tmp_path))
        assert (result.verdict, result.start.died) == ("failed", True)
        assert "failed, result exit-code, status 1" in result.reason
        assert LogLine("IndexError: list index out of range") in events
    start(host, "hangs")
    hanging = dataclasses.replace(QUICK, timeout=300, patience=3.0)
    result = verify(connection, deployment(host), hanging, history=History(tmp_path))
    assert (result.verdict, result.start.died) == ("failed", False)
    assert re.match(r"it hangs: no line for \d+ s, its processes use no CPU and read nothing", result.reason)
    start(host, "ready", "second fails")
    result = verify(connection, deployment(host), QUICK, history=History(tmp_path))
    assert (result.verdict, result.start.ready, result.start.died) == ("failed", True, False)
    assert result.reason == "ready, but one request failed: status 500: EngineDeadError"


def test_a_unit_in_a_log_namespace_is_followed_there(host: Box, connection: Connection):
    port = deployment(host).port
    host.put("/etc/systemd/system/apart.service", UNIT.format(port=port, restart="LogNamespace=models"))
    host.run(["systemctl", "daemon-reload"], check=True)
    unit = dataclasses.replace(deployment(host, "apart.service"), log_namespace="models")
    assert started(connection, unit).phases[-1].name == "ready"
    start(host, "dies")
    assert started(connection, unit).died


def test_a_unit_that_systemd_skips_ends_the_wait_at_once_with_the_condition(host: Box, tmp_path: Path):
    """Also where systemd forgets the unit then, which nothing wants, and the journal alone tells of it."""
    unit = TOLD.format(kind="simple", port=deployment(host).port).replace("START=ready", "START=hangs")
    unit = f"[Unit]\nConditionPathExists=/run/its models\n{unit}[Install]\nWantedBy=multi-user.target\n"
    host.put("/opt/engine/sglang/launch_server.py", LAUNCH)
    for name in ("wanted", "unwanted"):
        host.put(f"/etc/systemd/system/{name}.service", unit)
    host.run("systemctl daemon-reload; systemctl enable -q wanted; mkdir '/run/its models'", check=True)
    host.run("systemctl start wanted; rmdir '/run/its models'", check=True)
    reach = ("-F", str(host.ssh_config()), "--format", "json")
    for name in ("wanted", "unwanted"):
        about = (host.name, "--unit", name, *reach)
        done = triage("verify", *about, "--timeout", "600", env={**os.environ, "HOME": str(tmp_path)})
        assert done.returncode == 1, done.stderr
        told = json.loads(done.stdout)
        assert told["start"]["failure"].startswith("it was not started: inactive")
        assert told["start"]["seconds"] < 60
        for diagnosis in (told["diagnosis"], json.loads(triage("diagnose", *about).stdout)):
            (incident,) = diagnosis["incidents"]
            assert incident["diagnoses"][0]["rule"] == "unit-condition-unmet"
            assert "ConditionPathExists=/run/its models" in incident["initiator"]["message"]
        case = str(tmp_path / name)
        triage("capture", *about[:-2], "-o", case)
        assert triage("diagnose", "--case", case).returncode == 1


def test_units_that_say_when_they_are_up(host: Box, connection: Connection):
    """By sd_notify, or by the end of their first process: with another command for a while, and hanging."""
    host.put("/opt/engine/sglang/launch_server.py", LAUNCH)
    for kind in ("notify", "forking"):
        name = f"{kind}.service"
        unit = dataclasses.replace(deployment(host), name=name, unit=name)
        host.put(f"/etc/systemd/system/{name}", TOLD.format(kind=kind, port=unit.port))
        host.run(["systemctl", "daemon-reload"], check=True)
        own, dropin = command_of(connection, name), DropIn(connection, name, "stop")
        dropin.write(dataclasses.replace(own, argv=(*own.argv, "--tp-size", "2")), limit=100)
        found = started(connection, unit)
        assert found.ready, found
        assert b"--tp-size" in connection.run(["cat", f"/proc/{found.pid}/cmdline"]).stdout
        dropin.remove()
        wait_for(host, name, "ActiveState", "inactive")
        assert command_of(connection, name) == own
    start(host, "hangs")
    assert started(connection, unit).failure.startswith("it hangs: no line for ")


def test_a_unit_whose_command_has_ended_is_judged_by_what_it_has_left(host: Box, connection: Connection):
    unit = dataclasses.replace(deployment(host), name="leaving.service", unit="leaving.service")
    host.put("/etc/systemd/system/leaving.service", LEAVING.format(port=unit.port))
    host.run(["systemctl", "daemon-reload"], check=True)
    assert started(connection, unit).ready
    start(host, "hangs")
    assert started(connection, unit).failure.startswith("it hangs: no line for ")
    start(host, "hangs", more="WRAP=timeout 1.3\n")
    found = started(connection, unit)
    assert found.died
    assert found.failure.endswith("status 0, and what its command has left running has ended")
    host.put("/etc/systemd/system/elsewhere.service", UNIT.format(port=unit.port, restart=""))
    start(host, "ready", more="WRAP=systemctl start elsewhere #\n")
    host.run(["systemctl", "daemon-reload"], check=True)
    assert started(connection, unit).ready  # in another unit, as a container would be


def started(connection: Connection, unit: Deployment) -> Start:
    return restart_and_wait(
        SystemdService(connection, unit.unit, log_namespace=unit.log_namespace),
        client_of(connection, unit),
        timeout=60,
        restart_budget=0,
        on_event=ignore,
        watch=Watch(connection),
        patience=1.0,
    ).start


@pytest.mark.parametrize("budget", [0, 1])
def test_a_crash_loop_is_followed_no_longer_than_its_budget(
    host: Box, connection: Connection, tmp_path: Path, budget: int
):
    start(host, "dies")
    events: list[Event] = []
    options = dataclasses.replace(QUICK, restart_budget=budget)
    looping = deployment(host, "looping.service")
    result = verify(connection, looping, options, events.append, history=History(tmp_path))
    assert (result.verdict, result.start.died) == ("failed", True)
    assert 1 <= len([event for event in events if isinstance(event, ServiceStarted)]) <= 1 + budget


def test_restarts_end(host: Box, connection: Connection, tmp_path: Path):
    """With the unit's own limit, which it had reached before; and where it has none, with the budget."""
    start(host, "dies")
    host.run(["systemctl", "start", "looping.service"])
    wait_for(host, "looping.service", "ActiveState", "failed")
    endless = UNIT.format(port=1, restart="Restart=always\nRestartSec=60").replace("Burst=2", "Burst=0")
    host.put("/etc/systemd/system/endless.service", endless)
    host.run(["systemctl", "daemon-reload"], check=True)
    for unit, budget, most in (("looping.service", 50, 2), ("endless.service", 0, 1)):
        events: list[Event] = []
        options = dataclasses.replace(QUICK, restart_budget=budget, timeout=60)
        result = verify(connection, deployment(host, unit), options, events.append, history=History(tmp_path))
        assert (result.verdict, result.start.died) == ("failed", True)
        assert sum(isinstance(event, Restarting) for event in events) == 1
        assert 1 <= sum(isinstance(event, ServiceStarted) for event in events) <= most
    wait_for(host, "looping.service", "ActiveState", "failed")
    assert result.reason.endswith("result exit-code, status 1, to be started again")


def test_requests_of_users_are_waited_for(host: Box, connection: Connection, tmp_path: Path):
    host.run(["systemctl", "start", "engine.service"], check=True)
    found = dataclasses.replace(deployment(host), engine="vllm")
    for drain, kept, said in (
        (60, True, "the restart waited "),
        (0, False, "1 running request had not ended when it was restarted; a restart breaks them off"),
    ):
        answers: list[bytes] = []
        thread = threading.Thread(target=ask_slowly, args=(found.port, answers))
        thread.start()
        while not running(client_of(connection, found)):
            if not thread.is_alive():  # it ended before anybody had looked
                thread = threading.Thread(target=ask_slowly, args=(found.port, answers))
                answers.clear()
                thread.start()
            time.sleep(0.1)
        options = dataclasses.replace(QUICK, requests=0, drain=drain)
        result = verify(connection, found, options, history=History(tmp_path))
        thread.join()
        assert result.notes[0].startswith(said)
        assert bool(answers) == kept
        assert result.start.ready


def test_the_engines_own_tool_ends_with_who_asked_for_it(host: Box):
    """Ctrl-C, and a connection that is lost: nothing of it is left on the host."""
    host.put("/opt/engine/sglang/__init__.py", "")
    host.put("/opt/engine/sglang/bench_serving.py", TOOL)
    start(host, "ready", more="PYTHONPATH=/opt/engine\n")
    host.run(["systemctl", "start", "engine.service"], check=True)
    pid = host.run(["systemctl", "show", "-P", "MainPID", "engine.service"]).stdout.strip()
    unit = dataclasses.replace(deployment(host), main_pid=int(pid), model="/models/tiny")
    shape = LoadShape(2, 1, (8, 8), (8, 8))

    def interrupted(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupted)
    try:
        for error, end in (
            (KeyboardInterrupt, lambda connection: os.kill(os.getpid(), signal.SIGUSR1)),
            (UnreachableError, lambda connection: connection.close()),
        ):
            connection = connect(host)
            ending = threading.Thread(target=end_when_it_runs, args=(host, end, connection))
            ending.start()
            with pytest.raises(error):
                measure(connection, unit, [shape], "tiny", 60)
            ending.join()
            wait_tool(host, False)
            connection.close()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_unit_killed_under_load_is_found_dead(host: Box, connection: Connection, tmp_path: Path):
    def kill(event: Event) -> None:
        if type(event).__name__ == "LoadStarted":
            host.run(["systemctl", "kill", "-s", "KILL", "engine.service"], check=True)

    result = verify(connection, deployment(host), QUICK, kill, history=History(tmp_path))
    assert (result.verdict, result.start.ready, result.start.died) == ("failed", True, True)
    assert "status 9/KILL" in result.reason


def test_the_key_goes_to_the_unit_and_to_no_stranger_at_its_port(
    host: Box, connection: Connection, tmp_path: Path
):
    """The stranger keeps what it is sent. An operator who is not root sees no files of the unit's process."""
    unit, options = deployment(host), dataclasses.replace(QUICK, requests=0, api_key="sk-secret", timeout=15)
    history = History(tmp_path)
    result = verify(connection, unit, options, history=history)
    assert (result.start.ready, result.start.failure) == (True, "")
    operator = connect(host, "engineer")
    try:
        asked = dataclasses.replace(options, restart=False)
        assert verify(operator, unit, asked, history=history).start.failure == ""
    finally:
        operator.close()
    host.run(["systemctl", "stop", "engine.service"], check=True)
    take = (
        "import socket\n"
        f"listener = socket.create_server(('127.0.0.1', {unit.port}), reuse_port=False)\n"
        "while True:\n"
        "    got = listener.accept()[0]\n"
        "    open('/tmp/got', 'ab').write(got.recv(4096))\n"
        "    got.close()\n"
    )
    host.put("/opt/stranger.py", take)
    host.run("systemd-run -q --unit stranger --uid nobody /usr/bin/python3 /opt/stranger.py", check=True)
    for _ in range(50):
        if f":{unit.port:04X} " in host.run("cat /proc/net/tcp").stdout:
            break
        time.sleep(0.1)
    result = verify(connection, unit, asked, history=history)
    assert not result.start.ready
    other = int(host.run("systemctl show -P MainPID systemd-journald", check=True).stdout)
    client = client_of(connection, dataclasses.replace(unit, main_pid=other), key="sk-secret")
    assert "the API key is not sent to process" in client.models().error
    assert "sk-secret" not in host.run("cat /tmp/got").stdout
    host.run("systemctl stop stranger", check=True)


def test_two_operators_do_not_meet_and_one_without_the_right_is_told_so(host: Box, connection: Connection):
    with_password, without = connect(host, "engineer"), connect(host, "ops", become=True)
    try:
        service = SystemdService(with_password, "engine.service")
        assert service.state().active == "inactive"
        with pytest.raises(RefusedError, match=r"engine\.service on engineer"):
            service.restart()
        SystemdService(without, "engine.service").restart()
        with pytest.raises(UnreachableError, match="not-found"):
            SystemdService(with_password, "no-such.service").state()
        unit = deployment(host)
        with alone(connection, unit):
            for other in (with_password, without):
                with pytest.raises(RefusedError, match="two at once disturb each other"), alone(other, unit):
                    pass
            connection.close()  # as when the network is gone: nobody gives the lock back
            with alone(without, unit) as note:
                assert note == ""
        with alone(with_password, unit) as note:
            assert note == ""
    finally:
        with_password.close()
        without.close()
