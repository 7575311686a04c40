"""Changes where the host does not let us: full and read-only disks, files of others, a second operator."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.box import Box, Overlay
from tests.e2e.cutting import Call, Cutting, connect, strace
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install
from triage.common.errors import RefusedError, UnreachableError
from triage.hosts.connection import Connection
from triage.patching import transaction
from triage.patching.ledger import PatchChange
from triage.patching.load import find_patch
from triage.patching.transaction import HostTree

PATCH = find_patch("sglang-triton-value-head-dim")
MLA = {"pool_class": "MLATokenToKVPool"}
NEW = BACKEND_SOURCE.replace(
    "get_value_buffer(0)", "get_value_buffer(model_runner.token_to_kv_pool.start_layer)"
)
SITE, OTHER, LOWER, LEDGER = "/mnt/site", "/opt/other", "/opt/lower", "/var/lib/triage"
MODULE = BACKEND.replace(".", "/") + ".py"
FILE = f"{SITE}/{MODULE}"


@pytest.fixture(scope="module")
def shared(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    wheel = install(tmp_path_factory.mktemp("site"))
    lower = install(tmp_path_factory.mktemp("lower"))
    module = lower / MODULE
    module.chmod(0o640)
    os.chown(module, 1234, 4321)
    os.setxattr(module, "user.origin", b"wheel")
    os.link(module, lower / "cache.py")
    with Box(binds=strace(), overlays=[Overlay(lower, LOWER)], files={"/srv": wheel, OTHER: wheel}) as box:
        yield box


@pytest.fixture
def box(shared: Box) -> Iterator[Box]:
    """With the engine and root's ledger each on a small disk of its own."""
    shared.run(
        f"mkdir -p {SITE} {LEDGER} && mount -t tmpfs -o size=1m site {SITE} && "
        f"mount -t tmpfs -o size=1m ledger {LEDGER} && "
        f"cp -r /srv/. {SITE} && rm -rf {OTHER} && cp -r /srv {OTHER}",
        check=True,
    )
    yield shared
    shared.run(f"umount {SITE} {LEDGER}", check=True)


@pytest.fixture
def host(box: Box) -> Iterator[Cutting]:
    connection = Cutting(connect(box))
    yield connection
    connection.close()


def apply(connection: Connection, site: str = SITE) -> PatchChange:
    tree = HostTree(connection, [site])
    return transaction.apply(tree, PATCH, tree.plan(PATCH, MLA), MLA)


def changes(connection: Connection) -> tuple[PatchChange, ...]:
    return transaction.status(HostTree(connection, [SITE]))


def content(box: Box, file: str = FILE) -> str:
    text = box.run(["cat", file], check=True).stdout
    return {BACKEND_SOURCE: "old", NEW: "new"}.get(text, "torn")


def check_truth(box: Box, connection: Connection) -> None:
    found = content(box)
    told = [change.state for change in changes(connection)]
    assert found in ("old", "new")
    assert set(told) <= ({"applying", "undone"} if found == "old" else {"applying", "applied"}), told


@pytest.mark.parametrize("limit", ["size={}k", "nr_inodes={}"])
def test_a_ledger_that_has_no_room(box: Box, host: Cutting, limit: str) -> None:
    refused = []
    for room in range(4, 24, 4) if "size" in limit else (2, 4, 6, 7):
        box.run(f"umount {LEDGER} && mount -t tmpfs -o {limit.format(room)} ledger {LEDGER}", check=True)
        box.run(f"cp -r /srv/. {SITE}", check=True)
        try:
            apply(host)
        except UnreachableError as error:
            refused.append(error)
        check_truth(box, host)
        box.run(f"mount -o remount,size=1m,nr_inodes=1000 {LEDGER}", check=True)
        assert apply(host).state == "applied"
        assert content(box) == "new"
    assert len(refused) > 2
    assert {error.next for error in refused} == {"make room on that file system, then again"}
    assert all(error.happened.startswith(LEDGER) for error in refused), refused


def test_an_engine_whose_disk_is_full(box: Box, host: Cutting) -> None:
    box.run(f"cat /dev/zero >{SITE}/filler")
    with pytest.raises(UnreachableError, match=f"{FILE}: No space left") as caught:
        apply(host)
    assert "make room" in caught.value.next
    check_truth(box, host)
    (change,) = changes(host)
    assert (change.state, change.notes) == ("undone", (f"{FILE}: No space left on device",))
    assert box.run(f"find {SITE} -name '.triage*'").stdout == ""
    box.run(["rm", f"{SITE}/filler"], check=True)
    assert apply(host).state == "applied"
    box.run(f"cat /dev/zero >{SITE}/filler")  # the way back needs room as well
    with pytest.raises(UnreachableError, match="No space left"):
        transaction.rollback(HostTree(host, [SITE]), changes(host)[-1].id)
    assert content(box) == "new"
    box.run(["rm", f"{SITE}/filler"], check=True)
    assert transaction.rollback(HostTree(host, [SITE]), changes(host)[-1].id).state == "reverted"
    assert content(box) == "old"


def test_an_engine_on_a_read_only_disk(box: Box, host: Cutting) -> None:
    box.run(f"mount -o remount,ro {SITE}", check=True)
    with pytest.raises(UnreachableError, match=f"{FILE}: Read-only file system") as caught:
        apply(host)
    assert "writable" in caught.value.next
    assert [change.state for change in changes(host)] == ["undone"]
    assert apply(host, OTHER).state == "applied"
    box.run(f"mount -o remount,rw {SITE}", check=True)
    assert apply(host).state == "applied"
    assert content(box) == "new"


def test_a_disk_that_turns_read_only_in_the_middle(box: Box, host: Cutting) -> None:
    """It stops what concerns it, and nothing else."""
    host.op, host.call = "apply", Call("renameat", 1, "")  # the new file stands beside the old one
    with pytest.raises(UnreachableError, match="signal 9"):
        apply(host)
    host.op = ""
    box.run(f"mount -o remount,ro {SITE}", check=True)
    assert apply(host, OTHER).state == "applied"
    with pytest.raises(UnreachableError, match=r"triage.*: Read-only file system") as caught:
        apply(host)
    assert "writable" in caught.value.next
    assert [change.state for change in changes(host)] == ["applying", "applied"]
    box.run(f"mount -o remount,rw {SITE}", check=True)
    assert apply(host).state == "applied"
    assert content(box) == "new"
    assert box.run(f"find {SITE} -name '.triage*'").stdout == ""


def test_a_ledger_on_a_read_only_disk(box: Box, host: Cutting) -> None:
    first = apply(host)
    box.run(f"mount -o remount,ro {LEDGER}", check=True)
    assert [change.id for change in changes(host)] == [first.id]
    with pytest.raises(UnreachableError, match=f"{LEDGER}/.*: Read-only file system") as caught:
        transaction.rollback(HostTree(host, [SITE]), first.id)
    assert "writable" in caught.value.next
    assert content(box) == "new"
    box.run(f"mount -o remount,rw {LEDGER}", check=True)
    assert transaction.rollback(HostTree(host, [SITE]), first.id).state == "reverted"


@pytest.mark.parametrize("what", [FILE, os.path.dirname(FILE), f"{LEDGER}/changes"])
def test_what_not_even_root_may_change(box: Box, host: Cutting, what: str) -> None:
    box.run(f"mkdir -p {LEDGER}/changes && chattr +i {what}", check=True)
    with pytest.raises(UnreachableError, match=what) as caught:
        apply(host)
    assert "lsattr" in caught.value.next
    check_truth(box, host)
    assert content(box) == "old"
    box.run(["chattr", "-i", what], check=True)
    assert apply(host).state == "applied"
    assert box.run(f"find {SITE} -name '.triage*'").stdout == ""


def test_a_file_that_is_a_mount_of_its_own(box: Box, host: Cutting) -> None:
    """As containers have them."""
    box.run(f"cp {FILE} /mnt/file && mount --bind /mnt/file {FILE}", check=True)
    with pytest.raises(UnreachableError, match=f"{FILE}: Device or resource busy"):
        apply(host)
    check_truth(box, host)
    box.run(f"umount {FILE}", check=True)
    assert apply(host).state == "applied"


def test_permission_by_sudo_alone(box: Box) -> None:
    with pytest.raises(UnreachableError, match="sudo: a password is required"):
        connect(box, "engineer", become=True)
    plain, sudo = connect(box, "ops"), connect(box, "ops", become=True)
    with pytest.raises(UnreachableError, match=f"{FILE}: Permission denied") as caught:
        apply(plain)
    assert "--become" in caught.value.next
    assert content(box) == "old"
    change = apply(sudo)
    assert (content(box), change.ledger) == ("new", LEDGER)
    assert change.by.endswith(f" as root@{box.name}")
    assert [item.id for item in changes(plain) if item.state == "applied"] == [change.id]
    with pytest.raises(RefusedError, match=f"on record in {LEDGER}") as refused:
        transaction.rollback(HostTree(plain, [SITE]), change.id)
    assert "--become" in refused.value.next
    assert content(box) == "new"
    assert transaction.rollback(HostTree(sudo, [SITE]), change.id).state == "reverted"
    assert content(box) == "old"
    plain.close()
    sudo.close()


def test_several_operators_at_once(box: Box) -> None:
    connections = [connect(box) for _ in range(4)]
    start = threading.Barrier(len(connections))
    made: list[PatchChange] = []
    refused: list[str] = []

    def operate(connection: Connection) -> None:
        tree = HostTree(connection, [SITE])
        plan = tree.plan(PATCH, MLA)
        start.wait(30)
        try:
            made.append(transaction.apply(tree, PATCH, plan, MLA))
        except RefusedError as error:
            refused.append(error.happened)

    threads = [threading.Thread(target=operate, args=(connection,)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(made) + len(refused) == len(connections)
    assert [change.new for change in made].count(True) == 1
    assert all("another run holds the ledger" in why for why in refused)
    assert [change.state for change in changes(connections[0])] == ["applied"]
    assert content(box) == "new"
    for connection in connections:
        connection.close()


def test_a_file_in_a_lower_layer(box: Box, host: Cutting) -> None:
    """As in a container: what it was is kept, and the layer below is not written."""
    file = f"{LOWER}/{MODULE}"
    kept = (
        f"stat -c '%a %u %g' {file} && python3 -c \"import os; print(os.getxattr('{file}', 'user.origin'))\""
    )
    before = box.run(kept, check=True).stdout
    assert before.split() == ["640", "1234", "4321", "b'wheel'"]
    change = apply(host, LOWER)
    assert (content(box, file), content(box, f"{LOWER}/cache.py")) == ("new", "old")
    assert box.run(kept, check=True).stdout == before
    transaction.rollback(HostTree(host, [LOWER]), change.id)
    assert content(box, file) == "old"
    assert box.run(kept, check=True).stdout == before
