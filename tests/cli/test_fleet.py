"""Many hosts in one command: this machine under many names, each with programs of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import TRIAGE, triage
from tests.cli.test_diagnose import on_a_terminal
from tests.evidence.conftest import exec_start, ps_text, unit_text
from tests.hosts.conftest import Server, free_port, start_sshd
from tests.hosts.conftest import server as server  # a fixture
from tests.hosts.fakes import put_programs
from tests.hosts.test_ssh import gone, running

MARK = "98.4321"


class Fleet:
    """Hosts that are each an sshd with a PATH of its own."""

    def __init__(self, server: Server, directory: Path) -> None:
        self.server, self.directory = server, directory
        self.config: list[str] = []
        self.servers: list[Server] = []

    def add(self, name: str, **programs: str) -> None:
        place = self.directory / name
        place.mkdir()
        bin = put_programs(place / "bin", programs)
        for file in ("host_key", "host_key.pub", "authorized_keys"):
            (place / file).write_bytes((self.server.directory / file).read_bytes())
            (place / file).chmod(0o600)
        started = start_sshd(place, self.server.home, f"SetEnv PATH={bin}:/usr/bin:/bin")
        words = (place / "host_key.pub").read_text().split()
        with self.server.known_hosts.open("a") as file:
            file.write(f"[127.0.0.1]:{started.port} {words[0]} {words[1]}\n")
        self.servers.append(started)
        self.config.append(f"Host {name}\n  HostName 127.0.0.1\n  Port {started.port}\n")
        self.server.config.write_text("".join(self.config))

    def add_ill(
        self, name: str, error: str = "IndexError: list index out of range", log: Sequence[str] = ()
    ) -> None:
        unit = unit_text(
            "kimi.service",
            ActiveState="failed",
            Result="exit-code",
            ExecStart=exec_start("/opt/venv/bin/python", "-m", "sglang.launch_server"),
        )
        lines = (
            "Traceback (most recent call last):",
            '  File "/opt/venv/lib/python3.11/site-packages/sglang/srt/a.py", line 1, in start',
            "    x()",
            error,
        )
        at = "__REALTIME_TIMESTAMP=1795969341368758\n_PID=7\n"
        journal = "\n".join(f"{at}MESSAGE={line}\n" for line in log or lines)
        answers = {"systemctl": unit, "ps": ps_text((1, 0, "root", "/sbin/init")), "journalctl": journal}
        place = self.directory / f"answers-{name}"
        place.mkdir()
        for program, text in answers.items():
            (place / program).write_text(f"{text}\n")
        self.add(name, **{program: f"cat {place}/{program}" for program in answers})

    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.server.home)}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return triage(*words, "-F", str(self.server.config), env=self.environment())


@pytest.fixture
def fleet(server: Server, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(server, tmp_path)
    yield made
    for each in made.servers:
        each.stop()


@pytest.fixture
def mixed(fleet: Fleet, tmp_path: Path) -> Fleet:
    for name in ("gpu01", "gpu02", "gpu03"):
        fleet.add_ill(name)
    fleet.add_ill("gpu04", "ValueError: something else")
    fleet.add("gpu05", ps="echo nonsense", systemctl="exit 1")
    fleet.config.append(f"Host gpu06\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    fleet.server.config.write_text("".join(fleet.config))
    (tmp_path / "hosts.yaml").write_text(
        "hosts: {'gpu[01:06]': }\ngroups: {ill: {hosts: ['gpu[01:04]']}}\n"
        "deployments: {kimi: {hosts: [gpu01, gpu02], unit: kimi.service}}\n"
    )
    return fleet


def test_what_is_the_same_is_shown_once_and_no_host_stops_the_others(mixed: Fleet, tmp_path: Path) -> None:
    inventory = ("-i", str(tmp_path / "hosts.yaml"))
    page = tmp_path / "page.html"
    done = mixed.run("diagnose", "all", *inventory, "--report", str(page))
    assert done.returncode == 3
    assert done.stderr == f"wrote {page}\n"
    assert "gpu01, gpu02, gpu03" in page.read_text()
    assert "== 3 hosts: gpu01, gpu02, gpu03\n" in done.stdout
    assert done.stdout.count("IndexError: list index out of range") == 1
    assert "== gpu04\n" in done.stdout
    assert "no answer:   gpu05: finding an inference service on gpu05" in done.stdout
    assert "no answer:   gpu06: connecting to" in done.stdout
    last = done.stdout.splitlines()[-1]
    assert last == "6 hosts: 4 with an incident (2 different ones), 0 without, 2 without an answer"
    assert mixed.run("diagnose", "ill", *inventory).returncode == 1


def test_the_next_commands_reach_the_hosts_as_this_one_did(fleet: Fleet, tmp_path: Path) -> None:
    log = Path("tests/corpus/sglang-0.5.11-pp8-triton/log").read_text().splitlines()
    fleet.add_ill("gpu01", log=log)
    fleet.add_ill("gpu02", log=log)
    (tmp_path / "hosts.yaml").write_text("hosts: {'gpu[01:02]': {become: false}}\n")
    done = fleet.run("diagnose", "all", "-i", str(tmp_path / "hosts.yaml"), "--format", "json")
    reached = f"--ssh-config {fleet.server.config} --inventory {tmp_path}/hosts.yaml"
    for host in json.loads(done.stdout)["hosts"]:
        found = [each for each in host["diagnosis"]["incidents"][-1]["diagnoses"] if each["remedies"]]
        commands = [remedy["command"] for each in found for remedy in each["remedies"]]
        triages = [command for command in commands if command.startswith("triage ")]
        assert triages
        assert all(command.startswith(f"triage patch {host['name']} {reached} ") for command in triages)


def test_a_line_a_host_on_a_terminal(mixed: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in mixed.environment().items():
        monkeypatch.setenv(name, value)
    shown = on_a_terminal("diagnose", "gpu[01:04]", "-F", str(mixed.server.config))
    for name, error in (("gpu01", "IndexError"), ("gpu02", "IndexError"), ("gpu04", "ValueError")):
        assert re.search(
            rf"{name} +unknown: unknown \({error}\)", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        )


def test_json_of_many_hosts(mixed: Fleet, tmp_path: Path) -> None:
    done = mixed.run(
        "diagnose", "kimi,gpu06", "-i", str(tmp_path / "hosts.yaml"), "--format", "json", "--forks", "1"
    )
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["schema"] == "triage.fleet/1"
    assert [(each["name"], each["exit_code"]) for each in document["hosts"]] == [
        ("gpu01", 1),
        ("gpu02", 1),
        ("gpu06", 3),
    ]
    one, _, lost = document["hosts"]
    assert one["diagnosis"]["schema"] == "triage.diagnosis/1"
    assert one["error"] is lost["diagnosis"] is None
    assert "connection refused" in lost["error"]["happened"]
    (alike,) = document["alike"]
    assert alike["hosts"] == ["gpu01", "gpu02"]
    assert alike["fingerprint"] == one["diagnosis"]["incidents"][-1]["fingerprint"]


def test_a_list_of_aliases_needs_no_inventory(mixed: Fleet) -> None:
    done = mixed.run("diagnose", "gpu[01:02]")
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[-1] == "2 hosts: 2 with an incident, 0 without, 0 without an answer"


def test_the_inventory_says_how_to_reach_one_host_too(mixed: Fleet, tmp_path: Path) -> None:
    port = mixed.servers[0].port
    (tmp_path / "hosts.yaml").write_text(f"hosts: {{model: {{address: 127.0.0.1, port: {port}}}}}\n")
    done = mixed.run("diagnose", "model", "-i", str(tmp_path / "hosts.yaml"))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("model · kimi.service")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("diagnose", "ill", "--log", "x"), "a log, a bug report and a source are of one host"),
        (("capture", "ill", "-o", "x"), "this names several hosts (gpu01, gpu02, gpu03, gpu04)"),
        (("diagnose", "gpu[9:1]"), "[9:1] is empty"),
    ],
)
def test_what_does_not_go_with_several(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {'gpu[01:04]': }\ngroups: {ill: {hosts: ['gpu[01:04]']}}\n")
    done = triage(*words, cwd=tmp_path, env={**os.environ, "TRIAGE_INVENTORY": "hosts.yaml"})
    assert done.returncode == 2
    assert told in done.stderr


def test_ctrl_c_ends_what_runs_on_every_host(fleet: Fleet) -> None:
    for name in ("gpu01", "gpu02", "gpu03"):
        fleet.add(name, systemctl=f"exec sleep {MARK}")
    words = [*TRIAGE, "diagnose", "gpu[01:03]", "--forks", "2", "-F", str(fleet.server.config)]
    process = subprocess.Popen(words, env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while len([pid for pid in running(f"sleep\0{MARK}") if executes(pid, "sleep")]) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, b"")
    assert gone(f"sleep\0{MARK}")


def executes(pid: int, program: str) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == program
    except OSError:
        return False


def test_ctrl_c_on_one_host_ends_what_runs_there(fleet: Fleet) -> None:
    fleet.add("gpu01", systemctl=f"exec sleep {MARK}")
    words = [*TRIAGE, "diagnose", "gpu01", "-F", str(fleet.server.config)]
    process = subprocess.Popen(words, env=fleet.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not running(f"sleep\0{MARK}"):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert gone(f"sleep\0{MARK}")


def test_hosts_list(fleet: Fleet, tmp_path: Path) -> None:
    fleet.server.config.write_text("Host a b-*\nHost *\n  User x\nHost c\n")
    assert fleet.run("hosts", "list").stdout.split() == ["a", "c"]
    (tmp_path / "hosts.yaml").write_text(
        "hosts: {old: {port: 2222, user: me}}\ngroups: {g: {hosts: [old]}}\n"
    )
    words = ("hosts", "list", "-i", str(tmp_path / "hosts.yaml"))
    assert fleet.run(*words).stdout == "old  user=me port=2222 g\n"
    (row,) = json.loads(fleet.run(*words, "--format", "json").stdout)["hosts"]
    assert (row["name"], row["port"], row["groups"]) == ("old", 2222, ["g"])
    fleet.server.config.write_text("")
    assert fleet.run("hosts", "list").returncode == 2


def test_hosts_check(fleet: Fleet) -> None:
    gpus = (Path(__file__).parents[1] / "evidence/catalogue/recorded/gpu-inventory").as_posix()
    fleet.add(
        "full",
        id="echo ops",
        sudo="exit 0",
        journalctl="echo line",
        **{"nvidia-smi": f"cat {gpus}"},
    )
    hint = "Hint: You are currently not seeing messages from other users and the system."
    fleet.add(
        "bare",
        id="echo ops",
        sudo="echo 'sudo: a password is required' >&2; exit 1",
        journalctl=f"echo '{hint}' >&2",
        **{"nvidia-smi": "exit 127"},
    )
    fleet.config.append(f"Host lost\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    fleet.server.config.write_text("".join(fleet.config))
    done = fleet.run("hosts", "check")
    assert done.returncode == 3, done.stderr
    full, bare, lost = done.stdout.splitlines()
    assert full.split("  ")[2:4] == ["sudo", "journal"]
    assert full.endswith("  nvidia-smi (2)")
    assert bare.split("  ")[2:4] == ["sudo wants a password", "no journal"]
    assert bare.endswith("  no GPU tool")
    assert lost.startswith("lost  no answer: connecting to")
    rows = json.loads(fleet.run("hosts", "check", "full,bare", "--format", "json").stdout)["hosts"]
    assert [row["access"]["sudo"] for row in rows] == ["yes", "password"]


SUDO = """
[ "$1" = -n ] && { echo 'sudo: a password is required' >&2; exit 1; }
IFS= read -r word
[ "$word" = sesame ] || { echo 'sudo: 1 incorrect password attempt' >&2; exit 1; }
case "$*" in *-v) exit 0;; esac
while [ "$1" != -- ]; do shift; done; shift
exec "$@"
"""


def asked_for(fleet: Fleet, answer: str) -> tuple[int, str]:
    """What `hosts check --become` shows on a terminal, at which a person answers each question so."""
    argv = [*TRIAGE, "hosts", "check", "--become", "-F", str(fleet.server.config)]
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, {**os.environ, "TERM": "dumb", "HOME": str(fleet.server.home)})
    shown, answered = b"", 0
    with contextlib.suppress(OSError):
        while chunk := os.read(terminal, 1 << 16):
            shown += chunk
            if shown.count(b"sudo password") > answered:
                answered += 1
                time.sleep(0.2)  # until nothing is shown of what is typed
                os.write(terminal, answer.encode())
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_a_sudo_password_is_asked_for_once_for_all(fleet: Fleet) -> None:
    for name in ("one", "two", "three"):
        fleet.add(name, id="echo ops", sudo=SUDO)
    code, shown = asked_for(fleet, "sesame\n")
    assert (code, shown.count("sudo password on each of these hosts: ")) == (0, 1), shown
    assert "sesame" not in shown
    code, shown = asked_for(fleet, "wrong\n")
    assert (code, shown.count("sudo password on")) == (3, 1)
    assert shown.count("repeat with the right password") >= 3
    code, shown = asked_for(fleet, "\x03")
    assert code == 130, shown
