"""Bad input: an exit code of docs/json.md, one paragraph that says what to do next, nothing half done."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import TRIAGE, triage
from tests.hosts import conftest as hosts
from triage.common.shipped import shipped_directory

server = hosts.server

CRASH = """\
INFO:     Started server process [4711]
ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 30000): address already in use
"""
SSH_CONFIG = "Host closed\n  HostName 127.0.0.1\n  Port {}\n  User nobody\n"
PATCH = "sglang-triton-value-head-dim"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory full of what commands cannot use, and one log and case that they can."""
    for directory in ("directory", "rules", "patches", "cases/no-log", "cases/broken", "locked"):
        (tmp_path / directory).mkdir(parents=True)
    files: dict[str, str | bytes] = {
        "crash.log": CRASH,
        "empty": "",
        "blank": " \n\n",
        "binary": random.Random(7).randbytes(100_000),
        "zeros": bytes(5000),
        "damaged.gz": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff",
        "unreadable": CRASH,
        "rules/mine.yaml": "id: [",
        "patches/mine.yaml": "id: mine\ntitle: a title\nfix: yes\n",
        "playbook.yaml": "name: mine\nsteps: 3\n",
        "unknown-step.yaml": "name: mine\ndescription: d\nsteps: [{name: a, do: reboot}]\n",
        "ssh_config": SSH_CONFIG.format(hosts.free_port()),
        "cases/no-log/expected.yaml": "category: none\n",
        "cases/broken/expected.yaml": "categry: none\n",
        "cases/broken/log": CRASH,
    }
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(data)
    (tmp_path / "unreadable").chmod(0)
    (tmp_path / "locked").chmod(0o555)
    return tmp_path


def powerless() -> None:
    """Root without the right to pass over permissions; nothing changes for an ordinary user."""
    drop, override, search = 24, 1, 2  # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc = ctypes.CDLL(None)
    for capability in (override, search):
        libc.prctl(drop, capability, 0, 0, 0)


def complains(done: subprocess.CompletedProcess[str], code: int, *says: str, stdout: str = "") -> None:
    """One paragraph on standard error, this exit code, and nothing else."""
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stdout == stdout
    assert done.stderr.startswith("triage: ")
    assert done.stderr.count("\n") == 1
    for part in says:
        assert part in done.stderr


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        ("diagnose", 2, "name a HOST, a --log or a --case. Next: triage diagnose --help"),
        ("diagnose gpu01 --case cases/no-log", 2, "a case stands alone. Next: triage diagnose --case"),
        ("diagnose --log crash.log --case cases/no-log", 2, "a case stands alone"),
        ("diagnose --log missing.log", 2, "missing.log: there is no such file. Next: ls ."),
        ("diagnose --log directory", 2, "directory: it is a directory. Next: "),
        ("diagnose --log empty", 2, "it is empty. Next: journalctl"),
        ("diagnose --log blank", 2, "it is empty"),
        ("diagnose --log -", 2, "standard input: it is empty. Next: "),
        ("diagnose --log ''", 2, "this names no file. Next: "),
        ("diagnose --log binary", 2, "it is binary, not text. Next: file binary"),
        ("diagnose --log zeros", 2, "it is binary"),
        ("logs binary", 2, "it is binary, not text. Next: file binary"),
        ("diagnose --log damaged.gz", 2, "its compression is damaged"),
        ("diagnose --log unreadable", 3, "unreadable: permission denied. Next: ls -l unreadable"),
        ("diagnose --log /proc/self/mem", 3, "Input/output error"),
        ("diagnose --log crash.log --rules rules", 2, "rules/mine.yaml: it is not YAML"),
        ("diagnose --log crash.log --rules missing", 2, "missing: there is no such directory. Next: ls ."),
        ("diagnose --case missing", 2, "missing/manifest.json: "),
        ("diagnose --case directory", 2, "directory/manifest.json: "),
        ("diagnose no-such-host.invalid", 3, "no such host name: no-such-host.invalid. Next: "),
        (
            "diagnose closed -F ssh_config",
            3,
            "connection refused; is sshd running there, on that port? Next: ",
        ),
        ("diagnose closed -F missing", 2, "the ssh configuration missing: there is no such file"),
        ("diagnose ''", 2, "this is not a host name. Next: "),
        ("verify closed -F ssh_config", 3, "connection refused"),
        ("verify local --api-key-env TRIAGE_NOT_SET", 2, "is not set. Next: export TRIAGE_NOT_SET="),
        ("capture closed -F ssh_config -o case", 3, "connection refused"),
        ("capture local -o case --log missing.log", 2, "there is no such file"),
        ("capture local -o locked/case --log crash.log", 3, "locked/case: Permission denied. Next: ls -ld"),
        ("capture local -o cases --log crash.log", 4, "something that is no case is there already. Next: "),
        ("patch closed -F ssh_config", 3, "connection refused"),
        (f"patch local --package-root /none --patches patches --id {PATCH}", 2, "patches/mine.yaml: "),
        ("patch local --package-root /none --id none", 2, "there is no such patch. Next: one of: "),
        (f"patch local --package-root /none --id {PATCH} --given x", 2, "it is not NAME=VALUE. Next: "),
        ("patch rollback local --ledger ledger --yes", 2, "Next: triage patch status local"),
        ("replay missing", 3, "missing: no case is there"),
        ("replay directory", 3, "Next: triage capture HOST -o DIR"),
        ("replay cases --rules rules", 2, "it is not YAML"),
        ("replay cases --junit locked/out.xml --format json", 3, "locked/out.xml: Permission denied. Next: "),
        ("run missing.yaml local", 2, "missing.yaml: No such file or directory. Next: "),
        ("run no-such-playbook local", 2, "there are capture-for-bug-report, diagnose-only, "),
        ("run ./directory local", 2, "Is a directory"),
        ("run playbook.yaml local", 2, "playbook.yaml: "),
        ("run unknown-step.yaml local", 2, "steps.0"),
        ("run diagnose-only local --var unit", 2, "is not name=value. Next: "),
        ("run diagnose-only closed -F ssh_config", 3, "connection refused"),
    ],
)
def test_what_it_cannot_use(place: Path, line: str, code: int, says: str) -> None:
    before = sorted(place.rglob("*"))
    words = [word.strip("'") for word in line.split()]
    complains(triage(*words, cwd=place, preexec_fn=powerless), code, says)
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("diagnose --nope", "No such option: --nope"),
        ("diagnose gpu01 gpu02", "unexpected extra argument"),
        ("diagnose --log crash.log --format yaml", "--format"),
        ("capture local", "Missing option '--output'"),
        ("replay", "Missing argument"),
        ("verify local --timeout 0", "--timeout"),
        ("patch status", "Missing argument"),
        ("no-such-command", "No such command 'no-such-command'"),
    ],
)
def test_a_wrong_command_line(place: Path, line: str, says: str) -> None:
    done = triage(*line.split(), cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: triage")
    assert "Try 'triage" in done.stderr
    assert says in done.stderr


def test_nothing_at_all_is_help_and_an_error() -> None:
    done = triage()
    assert (done.returncode, done.stdout) == (2, "")
    assert "diagnose" in done.stderr


# A captured case that somebody has touched.


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("captured")
    (where / "crash.log").write_text(CRASH)
    done = triage("capture", "local", "--log", "crash.log", "-o", "case", cwd=where)
    assert done.returncode == 0, done.stderr
    return where / "case"


def edit_manifest(case: Path, change: Callable[[dict[str, list[dict[str, str]]]], None]) -> None:
    manifest = json.loads((case / "manifest.json").read_text())
    change(manifest)
    (case / "manifest.json").write_text(json.dumps(manifest))


def cut_manifest(case: Path) -> None:
    manifest = case / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-20])


def other_schema(case: Path) -> None:
    edit_manifest(case, lambda manifest: manifest.update(schema="triage.case/9"))


def other_bytes(case: Path) -> None:
    (case / "log").write_text("another log\n")


def no_log(case: Path) -> None:
    (case / "log").unlink()


def a_path_that_leaves_it(case: Path) -> None:
    edit_manifest(case, lambda manifest: manifest["answers"][0].update(file="../../../etc/passwd"))


def a_link_that_leaves_it(case: Path) -> None:
    (case / "log").unlink()
    (case / "log").symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("touch", "says"),
    [
        (cut_manifest, "Invalid JSON"),
        (other_schema, "schema: "),
        (other_bytes, "log: its bytes are not those that were captured"),
        (no_log, "log: there is no such plain file"),
        (a_path_that_leaves_it, "answers.0.file: "),
        (a_link_that_leaves_it, "log: there is no such plain file"),
    ],
)
def test_a_case_that_was_touched(
    captured: Path, tmp_path: Path, touch: Callable[[Path], None], says: str
) -> None:
    case = shutil.copytree(captured, tmp_path / "case")
    touch(case)
    complains(triage("diagnose", "--case", "case", cwd=tmp_path), 2, "reading the case case/", says)
    replayed = triage("replay", "case", cwd=tmp_path)
    assert (replayed.returncode, replayed.stderr) == (1, "")
    assert says in replayed.stdout


def test_a_case_that_was_not_touched(captured: Path) -> None:
    done = triage("diagnose", "--case", "case", cwd=captured.parent)
    assert (done.returncode, "port is taken" in done.stdout, done.stderr) == (1, True, "")


def test_a_broken_case_does_not_end_a_replay(place: Path) -> None:
    done = triage("replay", "cases", "--format", "json", cwd=place)
    assert done.returncode == 1
    broken, no_log = json.loads(done.stdout)["cases"]
    assert "categry" in broken["differences"][0]["text"]
    assert "neither a bundle nor a log" in no_log["differences"][0]["text"]


# Hosts that a real sshd plays.


def test_a_key_that_the_host_refuses(server: hosts.Server) -> None:
    (server.directory / "authorized_keys").write_text("")
    complains(triage("diagnose", "box"), 3, "127.0.0.1", "Next: ")


def test_a_host_key_that_is_not_known(server: hosts.Server) -> None:
    server.known_hosts.unlink()
    complains(triage("diagnose", "box"), 4, "Next: ")
    assert not server.known_hosts.exists()


def test_a_host_key_that_has_changed(server: hosts.Server) -> None:
    other = hosts.keygen(server.directory / "other_key").with_suffix(".pub").read_text().split()
    server.known_hosts.write_text(f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
    complains(triage("diagnose", "box", "--host-key", "accept-new"), 4, "Next: ")


# Standard streams.


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("diagnose", "--log", "crash.log"), 1),
        (("diagnose", "--log", "crash.log", "--format", "json"), 1),
        (("diagnose", "--log", "missing.log"), 2),
        (("--help",), 0),
        (("--version",), 0),
    ],
)
class TestStreams:
    def test_a_reader_that_has_gone(self, place: Path, words: tuple[str, ...], code: int) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        done = triage(*words, cwd=place, stdout=writer)
        both = triage(*words, cwd=place, stdout=writer, stderr=writer)
        os.close(writer)
        assert (done.returncode, both.returncode) == (code, code)
        assert done.stderr.count("\n") == (code == 2)

    def test_a_full_disk(self, place: Path, words: tuple[str, ...], code: int) -> None:
        with open("/dev/full", "w") as full:
            done = triage(*words, cwd=place, stdout=full)
        if code == 2:
            return complains(done, 2, "there is no such file", stdout=done.stdout)
        return complains(done, 3, "standard output: No space left on device. Next: ", stdout=done.stdout)

    def test_closed_streams(self, place: Path, words: tuple[str, ...], code: int) -> None:
        closed = subprocess.run(
            ["sh", "-c", '"$@" <&- >&- 2>&-', "sh", *TRIAGE, *words], cwd=place, timeout=60, check=False
        )
        assert closed.returncode == code

    def test_a_terminal_without_these_characters(
        self, place: Path, words: tuple[str, ...], code: int
    ) -> None:
        done = triage(*words, cwd=place, env={**os.environ, "PYTHONIOENCODING": "ascii"})
        assert (done.returncode, (done.stdout + done.stderr).isascii()) == (code, True)


def test_one_line_is_enough(place: Path) -> None:
    """What `| head -1` does: it reads, and goes."""
    with subprocess.Popen([*TRIAGE, "policy"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert b"runs these commands" in running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(60) == 0


def test_ctrl_c_is_no_verdict(place: Path) -> None:
    """It sleeps in a read when the signal comes: a pipe holds less than what it has taken from this one."""
    with subprocess.Popen(
        [*TRIAGE, "diagnose", "--log", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(b"x" * 1_000_000)
        running.stdin.flush()
        while "\nState:\tS" not in Path(f"/proc/{running.pid}/status").read_text():
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
        assert running.stdout.read() == b""
        assert b"Traceback" not in running.stderr.read()


@pytest.mark.parametrize(
    ("typed", "answer"),
    [(b"y\n", True), (b"YES\n", True), (b"yesterday\n", False), (b"\n", False), (b"\x04", False)],
)
def test_only_yes_is_yes(typed: bytes, answer: bool) -> None:
    ours, theirs = pty.openpty()
    os.write(ours, typed)
    code = "from triage.cli.console import agreed; print(agreed('Sure?', False))"
    done = subprocess.run(
        [sys.executable, "-c", code], stdin=theirs, capture_output=True, text=True, timeout=60, check=True
    )
    os.close(ours)
    os.close(theirs)
    assert done.stdout == f"{answer}\n"
    assert "Sure?" in done.stderr


def test_a_defect_is_not_taken_for_an_incident(place: Path) -> None:
    code = (
        "from triage.workflows import diagnose; from triage.cli.app import main\n"
        "def broken(*directories): raise ZeroDivisionError('\\x1b[2J')\n"
        "diagnose.load_knowledge = broken; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "diagnose", "--log", "crash.log"],
        cwd=place, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (70, "")
    assert "Traceback" in done.stderr
    assert "defect of triage" in done.stderr
    assert "\x1b" not in done.stderr


def test_every_exit_code_is_documented() -> None:
    table = (shipped_directory("docs") / "json.md").read_text()
    for code in (0, 1, 2, 3, 4, 70, 130):
        assert f"| {code} |" in table


@pytest.mark.parametrize("host", ["gpu01..corp", "x" * 64 + ".corp"])
def test_a_host_name_that_no_resolver_takes(host: str) -> None:
    done = triage("diagnose", host)
    assert done.returncode == 3
    assert host in done.stderr
    assert "Next: " in done.stderr
    assert "Traceback" not in done.stderr
