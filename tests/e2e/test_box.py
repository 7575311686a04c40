"""The test machine itself: that what the other end-to-end tests stand on is really there, and really goes."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import paramiko
import pytest

from tests.e2e.box import Bind, Box, BoxError, Overlay, interpreter, registry

REPOSITORY = Path(__file__).parents[2]
# An address that others, who take the first free one, do not get as soon as it is free again.
ADDRESS = registry.ADDRESSES[100 + os.getpid() % 150]
BoxFactory = Callable[..., Box]

THREE_SPEAKERS = """\
import os
for _ in range(3):
    if os.fork() == 0:
        print(f"speaker {os.getpid()}", flush=True)
        os._exit(0)
for _ in range(3):
    os.wait()
"""
THREE_SPEAKERS_UNIT = """\
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /opt/speakers.py
"""
HOLDS_A_BOX = """\
import signal, sys, time
from tests.e2e.box import Box
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits it as ignored
with Box("held", address=sys.argv[1]) as box:
    print(box.pid, flush=True)
    time.sleep(60)
"""


def journal(box: Box, *arguments: str, user: str = "root") -> list[dict[str, str]]:
    lines = box.run(["journalctl", "--output=json", *arguments], user=user, check=True).stdout
    return [json.loads(line) for line in lines.splitlines()]


def inhabitants(pid: int) -> set[int]:
    """All processes in the pid namespace of `pid`, as this machine numbers them."""
    home = os.stat(f"/proc/{pid}/ns/pid").st_ino
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.stat(entry / "ns/pid").st_ino == home:
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def traces() -> list[str]:
    """What there is of a box on ADDRESS: its directory, mounts in any namespace, cgroups."""
    directory = registry.REGISTRY / ADDRESS
    left = [str(directory)] if directory.exists() else []
    left += map(str, Path("/sys/fs/cgroup").rglob(f"triage-box-{ADDRESS}"))
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            mounts = (process / "mountinfo").read_text().splitlines()
            left += [line for line in mounts if f"{directory}/" in line]
    return left


def wait_for(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def hold_a_box() -> tuple[subprocess.Popen[str], int]:
    """Another process that has a box on ADDRESS: it, and the box's pid."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_BOX, ADDRESS], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    return holder, int(holder.stdout.readline())


def test_it_is_a_debian_with_systemd_and_sshd(box: Box) -> None:
    assert box.run(["systemctl", "is-system-running"]).stdout.strip() == "running"
    assert box.run("hostname; readlink /proc/1/exe").stdout.split() == ["box", "/usr/lib/systemd/systemd"]
    assert os.path.realpath(f"/proc/{box.pid}/exe") == "/usr/lib/systemd/systemd"
    assert box.run(["sh", "-c", "exit 7"]).returncode == 7
    assert box.run(["printf", "%s", "a 'b' $HOME"]).stdout == "a 'b' $HOME"

    client = paramiko.SSHClient()
    alias = paramiko.SSHConfig.from_path(str(box.ssh_config())).lookup(box.name)
    client.load_host_keys(alias["userknownhostsfile"])
    with client:
        client.connect(
            alias["hostname"],
            int(alias["port"]),
            alias["user"],
            key_filename=alias["identityfile"],
            allow_agent=False,
            look_for_keys=False,
        )
        assert client.exec_command("systemctl is-system-running")[1].read() == b"running\n"


def test_its_users_have_the_rights_that_they_are_known_for(box: Box) -> None:
    assert box.run("sudo -n id -u", user="ops").stdout.strip() == "0"
    assert box.run("sudo -n id -u", user="engineer").returncode != 0
    assert journal(box, "--quiet", "_PID=1", user="engineer")
    assert not journal(box, "--quiet", "_PID=1", user="ops")


def test_boxes_are_apart(box_factory: BoxFactory) -> None:
    boxes = {name: box_factory(name) for name in ("one", "two")}
    one, two = boxes.values()
    assert one.address != two.address
    for name, box in boxes.items():
        greeting = f"echo from {name}; exec sleep 1000"
        box.run(["systemd-run", "--unit=same", "sh", "-c", greeting], check=True)
    for name, box in boxes.items():
        said = [entry["MESSAGE"] for entry in journal(box, "_SYSTEMD_UNIT=same.service")]
        assert said == [f"from {name}"]
        # In one cgroup, neither systemd could list or kill its unit's processes for those of the other's.
        assert box.run(["systemctl", "status", "same"]).stderr == ""
    for what in (
        "cat /etc/machine-id",
        "cat /proc/sys/kernel/random/boot_id",
        "cut -d' ' -f2 /etc/ssh/*.pub",
    ):
        assert one.run(what).stdout != two.run(what).stdout


def test_each_line_of_a_unit_has_its_own_process_in_the_journal(box_factory: BoxFactory) -> None:
    box = box_factory(
        files={
            "/opt/speakers.py": THREE_SPEAKERS,
            "/etc/systemd/system/speakers.service": THREE_SPEAKERS_UNIT,
        }
    )
    box.run(["systemctl", "start", "speakers"], check=True)
    said = {e["MESSAGE"]: e["_PID"] for e in journal(box, "_SYSTEMD_UNIT=speakers.service")}
    assert len(said) == 3
    assert {f"speaker {pid}" for pid in said.values()} == set(said)


def test_an_overlay_is_written_in_the_box_and_nowhere_else(box_factory: BoxFactory, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    kept, gone = tmp_path / "site" / "kept.py", tmp_path / "site" / "gone.py"
    kept.write_text("before\n")
    gone.write_text("before\n")
    box = box_factory(binds=[tmp_path], overlays=[Overlay(tmp_path / "site", "/srv/site")])
    box.run("cd /srv/site && echo after >kept.py && rm gone.py && echo new >new.py", check=True)
    assert box.run("cd /srv/site && ls && cat kept.py").stdout.split() == ["kept.py", "new.py", "after"]
    assert box.run(f"touch {kept}").returncode != 0
    assert kept.read_text() == gone.read_text() == "before\n"
    assert sorted(path.name for path in (tmp_path / "site").iterdir()) == ["gone.py", "kept.py"]


def test_the_running_python_runs_in_a_box_for_everybody(box_factory: BoxFactory) -> None:
    box = box_factory(binds=interpreter())
    script = (
        "import bz2, ctypes, lzma, pytest, readline, sqlite3, ssl, sys; print(sys.prefix, pytest.__version__)"
    )
    answer = box.run([sys.executable, "-c", script], user="engineer")
    assert answer.stdout.split() == [sys.prefix, pytest.__version__], answer.stderr


def test_put_writes_files_and_trees(box: Box, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(bytes(range(256)))
    box.put("/srv/tree", tmp_path)
    box.put("/usr/local/bin/hello", "#!/bin/sh\necho hello\n")
    box.put("/var/run/note", "through a link")
    assert box.run("sha256sum </srv/tree/deep/file").stdout.split()[0] == (
        "40aff2e9d2d8922e47afd4648e6967497158785fbd1da870e7110266bf944880"
    )
    assert box.run(["hello"], user="engineer").stdout == "hello\n"
    assert box.run(["cat", "/run/note"]).stdout == "through a link"


def test_nothing_is_left_of_a_box(rootfs: Path) -> None:
    with Box(address=ADDRESS) as box:
        living = inhabitants(box.pid)
        box.run("systemd-run --collect sleep 1000", check=True)
        living |= inhabitants(box.pid)
        assert len(living) > 4
        assert len(traces()) > 2
    assert not [pid for pid in living if Path(f"/proc/{pid}").exists()]
    assert traces() == []


def test_it_is_shut_down_in_order(rootfs: Path, tmp_path: Path) -> None:
    with Box(binds=[Bind(tmp_path, "/srv/out", writable=True)]) as box:
        stopping = "--property=ExecStop=touch /srv/out/stopped-in-order"
        box.run(["systemd-run", stopping, "sleep", "1000"], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["stopped-in-order"]


def test_a_failing_test_leaves_nothing_either(rootfs: Path) -> None:
    with pytest.raises(ZeroDivisionError), Box(address=ADDRESS) as box:  # noqa: PT012
        living = inhabitants(box.pid)
        1 / 0  # noqa: B018
    assert not [pid for pid in living if Path(f"/proc/{pid}").exists()]
    assert traces() == []


def test_a_box_that_lost_its_nspawn_leaves_nothing_either(rootfs: Path) -> None:
    with Box(address=ADDRESS) as box:
        living, nspawn = inhabitants(box.pid), box.entry.nspawn
        assert nspawn is not None
        nspawn.send(signal.SIGKILL)
    assert wait_for(lambda: not [pid for pid in living if Path(f"/proc/{pid}").exists()])
    assert traces() == []


def test_an_interrupted_run_leaves_nothing(rootfs: Path) -> None:
    holder, pid = hold_a_box()
    holder.send_signal(signal.SIGINT)
    assert holder.wait(30) != 0
    assert not Path(f"/proc/{pid}").exists()
    assert traces() == []


def test_the_next_run_clears_up_after_a_killed_one(rootfs: Path) -> None:
    holder, pid = hold_a_box()
    living = inhabitants(pid)
    holder.kill()
    holder.wait()
    assert Path(f"/proc/{pid}").exists()
    with Box(address=ADDRESS) as box:
        assert wait_for(lambda: not [p for p in living if Path(f"/proc/{p}").exists()])
        assert box.run(["hostname"]).returncode == 0
    assert traces() == []


def test_addresses_are_handed_out_once(rootfs: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(registry.claim, [f"claim-{n}" for n in range(8)]))
    try:
        assert len({claim.address for claim in claims}) == 8
        with pytest.raises(BoxError, match="taken"):
            registry.claim("late", claims[0].address)
    finally:
        for claim in claims:
            registry.stop(claim)
    assert not set(claims) & set(registry.entries())


def test_a_machine_whose_own_sshd_has_the_port_can_have_boxes(box_factory: BoxFactory) -> None:
    with socket.create_server((ADDRESS, 22)):
        box = box_factory(address=ADDRESS)
        assert (box.address, box.port) == (ADDRESS, 2222)
        assert box.run(["hostname"]).stdout == "box\n"


def test_a_box_that_cannot_start_says_why_and_leaves_nothing(rootfs: Path) -> None:
    box = Box(f"broken-{os.getpid()}", binds=["/no/such/path"])
    with pytest.raises(BoxError, match="/no/such/path"):
        box.start()
    assert all(entry.name != box.name for entry in registry.entries())


def test_it_is_used_from_the_shell(rootfs: Path, tmp_path: Path) -> None:
    def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tests.e2e.box", *arguments],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
        )

    name = f"shell-{os.getpid()}"
    up = shell("up", name, "--bind", f"{tmp_path}:/srv/here:rw")
    try:
        assert up.returncode == 0, up.stderr
        printed = shlex.split(up.stdout.splitlines()[-1])
        assert subprocess.run([*printed, "hostname"], capture_output=True, text=True).stdout.strip() == name
        assert shell("ssh", name, "touch", "/srv/here/it").returncode == 0
        assert (tmp_path / "it").exists()
        assert name in shell("list").stdout
        assert shell("up", name).returncode == 1
    finally:
        down = shell("down", name)
    assert down.returncode == 0, down.stderr
    assert name not in shell("list").stdout
    assert shell("ssh", name).returncode == 1


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", 1)])
def test_where_no_box_can_run_the_summary_names_what_did_not(required: str, code: int) -> None:
    test = f"{__file__}::{test_nothing_is_left_of_a_box.__name__}"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", test],
        cwd=REPOSITORY,
        env={"PATH": "/nowhere", "TRIAGE_REQUIRE_E2E": required},
        capture_output=True,
        text=True,
    )
    summary = run.stdout.partition("end-to-end tests that did not run")[2]
    assert "tests/e2e/test_box.py::test_nothing_is_left_of_a_box: " in summary, run.stdout
    assert run.returncode == code
