"""The connection, the process and the machine cut at every step of a change, on a real machine.

Afterwards the file is the old one or the new one, the ledger says which, and the next command fixes it.
Here a sample of the steps; `-m benchmark` takes all of them.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Bind, Box
from tests.e2e.conftest import BoxFactory
from tests.e2e.cutting import Call, Cutting, changing_calls, connect, strace
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install, module_path
from triage.common.errors import UnreachableError
from triage.hosts.connection import Connection
from triage.hosts.local import LocalConnection
from triage.hosts.sender import command
from triage.patching import transaction
from triage.patching.ledger import PatchChange
from triage.patching.load import find_patch
from triage.patching.transaction import HostTree
from triage.remote import PATCH_AGENT

PATCH = find_patch("sglang-triton-value-head-dim")
MLA = {"pool_class": "MLATokenToKVPool"}
OLD = BACKEND_SOURCE.encode()
NEW = OLD.replace(b"get_value_buffer(0)", b"get_value_buffer(model_runner.token_to_kv_pool.start_layer)")
STATES = {
    "old": ("applying", "undone", "reverting", "reverted"),
    "new": ("applying", "applied", "reverting"),
}


def one_in(number: int) -> list[object]:
    return [
        pytest.param(number, id="sample"),
        pytest.param(1, id="all", marks=[pytest.mark.benchmark, pytest.mark.timeout(1800)]),
    ]


class Engine:
    """An installed package and a ledger on one disk. `site` and `ledger` are where the host sees them."""

    def __init__(self, disk: Path, site: str = "", ledger: str = "", python: str = "") -> None:
        self.disk, self.python = disk, python
        self.root, self.record = disk / "site-packages", disk / "ledger"
        self.site, self.ledger = site or str(self.root), ledger or str(self.record)
        self.file = module_path(self.root, BACKEND)

    def reset(self) -> None:
        """As it was installed, with nothing on record."""
        install(self.root)
        shutil.rmtree(self.record / "changes", ignore_errors=True)
        self.record.mkdir(exist_ok=True)

    def tree(self, connection: Connection) -> HostTree:
        return HostTree(connection, [self.site], self.python, self.ledger)

    def apply(self, connection: Connection) -> PatchChange:
        tree = self.tree(connection)
        return transaction.apply(tree, PATCH, tree.plan(PATCH, MLA), MLA)

    def changes(self, connection: Connection) -> tuple[PatchChange, ...]:
        return transaction.status(self.tree(connection))

    def content(self) -> str:
        return {OLD: "old", NEW: "new"}.get(self.file.read_bytes(), "torn")

    def check(self, content: str) -> None:
        """That it is whole, and nothing is left lying beside it."""
        assert self.content() == content
        assert [path for path in self.root.rglob(".*") if path.is_file()] == []

    def check_truth(self, connection: Connection) -> None:
        """That the ledger says what is so, before anything is fixed."""
        found = self.content()
        assert found in STATES
        for change in self.changes(connection):
            (file,) = change.files
            assert file.now == {"old": file.before, "new": file.after}[found]
            assert change.state in STATES[found]

    def steps(self, host: Cutting, op: str, run: Callable[[], object]) -> list[Call]:
        """Where a run can be cut: the calls of one that is not."""
        host.op, host.call = op, None
        run()
        host.op = ""
        return changing_calls(self.disk / "calls.log")


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = Engine(tmp_path, "/opt/engine/lib/python3.11/site-packages", "/var/lib/triage")
    engine.reset()
    return engine


def binds(engine: Engine) -> list[Bind]:
    """Its disk, which outlives the box."""
    return [
        Bind(engine.root, engine.site, writable=True),
        Bind(engine.record, engine.ledger, writable=True),
        Bind(engine.disk, "/srv", writable=True),
        *strace(),
    ]


@pytest.fixture
def box(engine: Engine, box_factory: BoxFactory) -> Box:
    return box_factory(binds=binds(engine))


@pytest.fixture
def host(box: Box) -> Iterator[Cutting]:
    cutting = Cutting(connect(box), log="/srv/calls.log")
    yield cutting
    cutting.close()


@contextlib.contextmanager
def killed(host: Cutting, op: str, call: Call) -> Iterator[None]:
    """The agent is killed as it comes to a call."""
    host.op, host.call, host.fate = op, call, "signal=KILL"
    with pytest.raises(UnreachableError, match="signal 9"):
        yield
    host.op = ""


@pytest.mark.parametrize("every", one_in(7))
def test_an_apply_that_is_killed(host: Cutting, engine: Engine, every: int) -> None:
    calls = engine.steps(host, "apply", lambda: engine.apply(host))
    assert {"openat", "write", "fsync", "flock"} <= {call.name for call in calls}
    assert sum(call.name.startswith("rename") for call in calls) == 3
    found = set()
    for call in calls[::every]:
        engine.reset()
        with killed(host, "apply", call):
            engine.apply(host)
        found.add(engine.content())
        engine.check_truth(host)
        assert engine.apply(host).state == "applied", call
        engine.check("new")
    assert found == {"old", "new"}
    print(f"apply: {len(calls)} steps")


@pytest.mark.parametrize("every", one_in(7))
def test_a_rollback_that_is_killed(host: Cutting, engine: Engine, every: int) -> None:
    change = engine.apply(host).id
    calls = engine.steps(host, "rollback", lambda: transaction.rollback(engine.tree(host), change))
    for call in calls[::every]:
        engine.reset()
        change = engine.apply(host).id
        with killed(host, "rollback", call):
            transaction.rollback(engine.tree(host), change)
        engine.check_truth(host)
        assert transaction.rollback(engine.tree(host), change).state == "reverted", call
        engine.check("old")
    print(f"rollback: {len(calls)} steps")


@pytest.mark.parametrize("every", one_in(7))
@pytest.mark.parametrize("replaced", [False, True])
def test_a_recovery_that_is_killed(host: Cutting, engine: Engine, replaced: bool, every: int) -> None:
    """After an apply that was cut just before or just after the file was replaced."""
    calls = engine.steps(host, "apply", lambda: engine.apply(host))
    renames = [number for number, call in enumerate(calls) if call.name.startswith("rename")]
    cut = calls[renames[1] + replaced]

    def interrupt() -> None:
        engine.reset()
        with killed(host, "apply", cut):
            engine.apply(host)
        assert engine.content() == ("new" if replaced else "old")

    interrupt()
    steps = engine.steps(host, "recover", lambda: transaction.recover(engine.tree(host)))
    for call in steps[::every]:
        interrupt()
        with killed(host, "recover", call):
            transaction.recover(engine.tree(host))
        engine.check_truth(host)
        transaction.recover(engine.tree(host))
        assert [change.state for change in engine.changes(host)] == ["applied" if replaced else "undone"], (
            call
        )
        engine.check("new" if replaced else "old")
    print(f"recovery: {len(steps)} steps")


@pytest.mark.parametrize("every", one_in(15))
def test_a_call_that_fails(host: Cutting, engine: Engine, every: int) -> None:
    calls = engine.steps(host, "apply", lambda: engine.apply(host))
    answer = calls.pop()
    assert answer.name == "write"
    errors = ("ENOSPC", "EROFS", "EIO", "ESTALE")
    for call, error in list(itertools.product(calls, errors))[::every]:
        engine.reset()
        host.op, host.call, host.fate = "apply", call, f"error={error}"
        with contextlib.suppress(UnreachableError):  # some it can do without
            engine.apply(host)
        host.op = ""
        engine.check_truth(host)
        assert engine.apply(host).state == "applied", call
        engine.check("new")


@pytest.mark.parametrize("every", one_in(15))
def test_the_machine_dies(engine: Engine, box_factory: BoxFactory, every: int) -> None:
    """While the agent is in a call; another one boots from the same disk."""
    box = box_factory("first", binds=binds(engine))
    host = Cutting(connect(box), log="/srv/calls.log")
    calls = engine.steps(host, "apply", lambda: engine.apply(host))
    for number, call in enumerate(calls[::every]):
        engine.reset()
        host.op, host.call, host.fate = "apply", call, "delay_enter=60s"
        with cut_in(host, engine):
            os.kill(box.pid, signal.SIGKILL)  # with its first process all of them go at once
        host.close()
        box.stop()
        box = box_factory(f"next-{number}", binds=binds(engine))
        host = Cutting(connect(box), log="/srv/calls.log")
        engine.check_truth(host)
        assert engine.apply(host).state == "applied"
        engine.check("new")


@contextlib.contextmanager
def cut_in(host: Cutting, engine: Engine) -> Iterator[None]:
    """Do something while an apply waits in a call; it must then lose its host."""
    call = host.call
    assert call is not None
    log = engine.disk / "calls.log"
    log.unlink()
    lost: list[UnreachableError] = []

    def attempt() -> None:
        try:
            engine.apply(host)
        except UnreachableError as error:
            lost.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    wait_for(lambda: log.exists() and log.read_text(errors="replace").count(f" {call.name}(") >= call.number)
    yield
    thread.join(60)
    assert len(lost) == 1


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("every", one_in(15))
def test_the_connection_dies(box: Box, engine: Engine, every: int) -> None:
    """While the agent is in a call. It comes to its end without us; the next command finds that."""
    host = Cutting(connect(box), log="/srv/calls.log")
    calls = engine.steps(host, "apply", lambda: engine.apply(host))
    for call in calls[:-1:every]:
        engine.reset()
        host.op, host.call, host.fate = "apply", call, "delay_enter=60s"
        with cut_in(host, engine):
            # Every sshd of a session, and none of what they started; without strace the call goes on.
            box.run("kill -9 $(pgrep -x strace) $(pgrep -f '^sshd: root')")
        host.op = ""
        wait_for(lambda: [change.state for change in engine.changes(host)] == ["applied"])
        engine.check("new")
        assert not engine.apply(host).new


def test_a_request_that_does_not_arrive_whole(box: Box, engine: Engine) -> None:
    tree = engine.tree(connect(box))
    (edit,) = tree.plan(PATCH, MLA).edits
    request = {"op": "apply", "patch": "x", "distribution": "sglang", "by": "me"}
    payload = json.dumps({
        "agent": PATCH_AGENT.text,
        "request": {**request, "files": [transaction._sent(edit)]},
    }).encode()  # fmt: skip
    for length in (0, 1, len(payload) // 2, len(payload) - 1):
        done = box.run(command(PATCH_AGENT, "python3"), stdin=payload[:length])
        assert done.returncode != 0
        engine.check("old")
        assert list(engine.record.iterdir()) == []


class Disk:
    """A file system of its own, on which power can be lost: what was not synced is gone."""

    def __init__(self, directory: Path) -> None:
        self.at = directory / "disk"
        self.at.mkdir()
        self.images = {name: directory / name for name in ("installed", "running", "after")}

    def make(self) -> Engine:
        image = self.images["installed"]
        with image.open("wb") as file:
            file.truncate(4 << 20)
        run("mkfs.ext4", "-q", "-b", "1024", "-J", "size=1", str(image))
        self.mount("installed")
        engine = Engine(self.at, python=sys.executable)
        engine.reset()
        self.unmount()
        return engine

    def mount(self, name: str) -> None:
        # Commits by the clock, and those of ext4 at a rename, would hide a missing sync.
        run("mount", "-o", "loop,commit=300,noauto_da_alloc", str(self.images[name]), str(self.at))

    def unmount(self) -> None:
        run("umount", str(self.at))

    def start(self) -> None:
        self.write("running", self.images["installed"].read_bytes())
        self.mount("running")

    def write(self, name: str, image: bytes) -> None:
        """As another file: the kernel may not yet have let go of the one that was mounted before."""
        self.images[name].unlink(missing_ok=True)
        self.images[name].write_bytes(image)

    def lose_power(self) -> None:
        # Read twice the same, it is how all of it was at one moment: the kernel may be writing to it.
        image = b""
        while image != (again := self.images["running"].read_bytes()):
            image = again
        self.write("after", image)
        self.unmount()
        self.mount("after")


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True, text=True)


@pytest.fixture
def disk(rootfs: Path, tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(tmp_path)
    yield disk
    if os.path.ismount(disk.at):
        disk.unmount()


@pytest.mark.parametrize("every", one_in(7))
def test_the_power_goes(disk: Disk, tmp_path: Path, every: int) -> None:
    """Of what was written only that remains which was synced, or that the kernel had written anyway."""
    engine = disk.make()
    host = Cutting(LocalConnection(), log=str(tmp_path / "calls.log"))
    disk.start()
    change = engine.apply(host).id
    disk.lose_power()
    assert [item.state for item in engine.changes(host)] == ["applied"]
    engine.check("new")
    disk.unmount()

    disk.start()
    change = engine.apply(host).id
    transaction.rollback(engine.tree(host), change)
    disk.lose_power()
    assert [item.state for item in engine.changes(host)] == ["reverted"]
    engine.check("old")
    disk.unmount()

    disk.start()
    host.op = "apply"
    engine.apply(host)
    disk.unmount()
    found = set()
    for call in changing_calls(tmp_path / "calls.log")[::every]:
        disk.start()
        with killed(host, "apply", call):
            engine.apply(host)
        disk.lose_power()
        found.add(engine.content())
        engine.check_truth(host)
        assert engine.apply(host).state == "applied", call
        engine.check("new")
        disk.unmount()
    assert found == {"old", "new"}
