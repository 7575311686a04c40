"""The agent on odd ground: archives, compiled modules, damaged ledgers, attributes, bytecode, clocks."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import py_compile
import shutil
import struct
import subprocess
import sys
import zipfile
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.patching.hosts import Host, host_tree
from tests.patching.trees import BACKEND, BACKEND_SOURCE, POOL, install, module_path
from triage.common.errors import RefusedError, UnreachableError
from triage.patching import transaction
from triage.patching.load import find_patch
from triage.patching.model import PlanState
from triage.patching.schema import Patch
from triage.patching.target import PatchTarget, apply_all, survey
from triage.patching.transaction import HostTree
from triage.remote import patch_agent

PATCH = find_patch("sglang-triton-value-head-dim")
MLA = {"pool_class": "MLATokenToKVPool"}
OLD = BACKEND_SOURCE.encode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def tree(root: Path, ledger: Path) -> HostTree:
    return host_tree(root, ledger)


@pytest.fixture
def path(root: Path) -> Path:
    return module_path(root, BACKEND)


def send(tree: HostTree, patch: str, *edits: tuple[Path, bytes]) -> str:
    """One change of the agent's, whatever it is for; gives its id."""
    files = []
    for file, new in edits:
        digests = [hashlib.sha256(data).hexdigest() for data in (file.read_bytes(), new)]
        module = ".".join(file.with_suffix("").parts[-2:])
        files.append(
            dict(zip(("module", "path", "before", "after"), (module, str(file), *digests), strict=True))
            | {"data": b64encode(new).decode()}
        )
    answer = tree.agent.ask(
        "applying", patch, op="apply", patch=patch, distribution="sglang", by="me", files=files
    )
    return str(answer["change"]["id"])


class TestWhatIsNotSource:
    def test_an_egg_is_refused_by_name(self, root: Path, ledger: Path, tmp_path: Path) -> None:
        egg = tmp_path / "sglang-0.5.11-py3.11.egg"
        with zipfile.ZipFile(egg, "w") as archive:
            for file in root.rglob("*.py"):
                archive.write(file, file.relative_to(root))
        assert host_tree(egg, ledger).search("sglang", ["def"], [])[2][0][0] == str(egg)
        for place in (egg, egg / "src"):
            ((_, plan),) = survey(PatchTarget(host_tree(place, ledger), f"{place}/sglang", (PATCH,)))
            assert (plan.state, str(egg) in plan.reason) == (PlanState.UNREADABLE, True)
            assert "archive" in plan.reason

    @pytest.mark.parametrize("name", [".so", ".abi3.so", importlib.machinery.EXTENSION_SUFFIXES[0]])
    def test_a_compiled_module_is_imported_before_its_source(
        self, tree: HostTree, path: Path, name: str
    ) -> None:
        compiled = path.with_suffix(name)
        compiled.write_bytes(b"\x7fELF")
        plan = tree.plan(PATCH, MLA)
        assert (plan.state, str(compiled) in plan.reason) == (PlanState.UNREADABLE, True)

    def test_bytecode_without_source_is_no_absent_module(self, tree: HostTree, path: Path) -> None:
        py_compile.compile(str(path), cfile=str(path.with_suffix(".pyc")), doraise=True)
        assert tree.plan(PATCH, MLA).state is PlanState.APPLICABLE  # source comes first
        path.unlink()
        plan = tree.fresh().plan(PATCH, MLA)
        assert (plan.state, "not source" in plan.reason) == (PlanState.UNREADABLE, True)

    def test_a_pipe_is_not_waited_for(self, tree: HostTree, path: Path) -> None:
        path.unlink()
        os.mkfifo(path)
        assert tree.plan(PATCH, MLA).state is PlanState.UNREADABLE


def whole(record: dict[str, Any], **changes: Any) -> str:
    return json.dumps({**record, **changes})


DAMAGE: dict[str, Callable[[dict[str, Any]], str]] = {
    "empty": lambda record: "",
    "truncated": lambda record: json.dumps(record)[:-20],
    "null": lambda record: "null",
    "a list": lambda record: "[]",
    "deep": lambda record: "[" * 200_000,
    "no text": lambda record: "\udcff",
    "of another change": lambda record: whole(record, id="20200101T000000000000Z-other"),
    "no files": lambda record: whole(record, files=[]),
    "half a file": lambda record: whole(record, files=[{"path": "/etc/passwd"}]),
    "files that are none": lambda record: whole(record, files=[1]),
    "state": lambda record: whole(record, state="sideways"),
    "notes": lambda record: whole(record, notes=[{}]),
    "context": lambda record: whole(record, context=[1]),
    "half a context": lambda record: whole(record, context={"pool_class": None}),
    "a newer format": lambda record: whole(record, format=2),
    "no format": lambda record: whole(record, format="x"),
}


def test_a_ledger_may_be_named_from_home_or_from_where_we_land(
    root: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, place in (("~/records", tmp_path / "home" / "records"), ("records", tmp_path / "records")):
        tree = HostTree(Host(), [str(root)], sys.executable, name)
        made = send(tree, "new", (path, b"# new\n"))
        assert (place / "changes" / made).is_dir()
        transaction.rollback(tree, made)


class TestDamagedLedger:
    @pytest.mark.parametrize("kind", DAMAGE)
    def test_a_damaged_record_is_shown_and_blocks_nothing_else(
        self, tree: HostTree, ledger: Path, path: Path, kind: str
    ) -> None:
        lost = send(tree, "lost", (path, b"# lost\n"))
        record = ledger / "changes" / lost / "change.json"
        text = DAMAGE[kind](json.loads(record.read_text()))
        record.write_bytes(text.encode("utf-8", "surrogateescape"))
        (change,) = transaction.status(tree)
        assert (change.id, change.state, change.files) == (lost, "unreadable", ())
        assert str(record) in change.notes[0]
        assert ("newer version" in change.notes[0]) == (kind == "a newer format")
        with pytest.raises(RefusedError, match=str(record)):
            transaction.rollback(tree, lost)
        made = send(tree, "next", (path, b"# next\n"))
        assert [item.state for item in transaction.status(tree)] == ["unreadable", "applied"]
        transaction.rollback(tree, made)
        assert path.read_bytes() == b"# lost\n"
        assert (record.parent / "0.before").read_bytes() == OLD  # what a person needs

    @pytest.mark.parametrize("remains", ["nothing", "directory", "pipe"])
    def test_a_record_that_is_no_file(self, tree: HostTree, ledger: Path, path: Path, remains: str) -> None:
        lost = send(tree, "lost", (path, b"# lost\n"))
        record = ledger / "changes" / lost / "change.json"
        record.unlink()
        if remains != "nothing":
            record.mkdir() if remains == "directory" else os.mkfifo(record)
        assert [item.state for item in transaction.status(tree)] == ["unreadable"]

    def test_what_is_not_a_change_is_passed_over(self, tree: HostTree, ledger: Path, path: Path) -> None:
        (ledger / "changes" / "lost+found").mkdir(parents=True)
        (ledger / "changes" / "notes.txt").write_text("")
        made = send(tree, "next", (path, b"# next\n"))
        assert [item.id for item in transaction.status(tree)] == [made]

    def test_a_record_from_before_formats_were_numbered(
        self, tree: HostTree, ledger: Path, path: Path
    ) -> None:
        made = send(tree, "old", (path, b"# new\n"))
        record = ledger / "changes" / made / "change.json"
        kept = json.loads(record.read_text())
        assert kept.pop("format") == patch_agent.FORMAT
        record.write_text(json.dumps(kept))
        assert transaction.rollback(tree, made).state == "reverted"
        assert path.read_bytes() == OLD


class TestClock:
    def test_one_that_jumps_back_does_not_mix_up_the_order(
        self, root: Path, ledger: Path, path: Path
    ) -> None:
        host = Host()
        tree = host_tree(root, ledger, host)
        first = send(tree, "first", (path, b"# first\n"))
        for slow in (1e9, 1e6, 5.0):
            host.slow = slow
            second = send(tree, "second", (path, b"# second\n"))
            assert transaction.status(tree)[-1].id == second
            with pytest.raises(RefusedError, match="changed the same file later") as caught:
                transaction.rollback(tree, first)
            assert second in str(caught.value.next)
            assert transaction.rollback(tree, second).state == "reverted"
            assert path.read_bytes() == b"# first\n"
        host.slow = 0.0
        assert transaction.rollback(tree, first).state == "reverted"
        assert path.read_bytes() == OLD


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """Tag, permissions, and id of each entry, as Linux keeps them."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


OWNER, USER, GROUP, MASK, OTHER, NOBODY = 1, 2, 4, 16, 32, 0xFFFFFFFF
READ_BY_1234 = access_list(
    (OWNER, 6, NOBODY), (USER, 4, 1234), (GROUP, 4, NOBODY), (MASK, 4, NOBODY), (OTHER, 0, NOBODY)
)


class TestAttributes:
    def test_an_access_list_stays(self, tree: HostTree, path: Path) -> None:
        os.setxattr(path, "system.posix_acl_access", READ_BY_1234)
        made = send(tree, "new", (path, b"# new\n"))
        assert os.getxattr(path, "system.posix_acl_access") == READ_BY_1234
        transaction.rollback(tree, made)
        assert os.getxattr(path, "system.posix_acl_access") == READ_BY_1234

    def test_that_of_new_files_in_the_directory_is_not_taken_on(self, tree: HostTree, path: Path) -> None:
        os.setxattr(path.parent, "system.posix_acl_default", READ_BY_1234)
        before = path.stat().st_mode
        send(tree, "new", (path, b"# new\n"))
        assert "system.posix_acl_access" not in os.listxattr(path)
        assert path.stat().st_mode == before

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may set security attributes")
    def test_a_security_label_stays_and_a_signature_of_the_old_bytes_does_not(
        self, tree: HostTree, path: Path
    ) -> None:
        os.setxattr(path, "security.selinux", b"system_u:object_r:lib_t:s0\0")
        os.setxattr(path, "security.ima", b"\x01" + hashlib.sha1(OLD).digest())
        send(tree, "new", (path, b"# new\n"))
        assert os.getxattr(path, "security.selinux") == b"system_u:object_r:lib_t:s0\0"
        assert "security.ima" not in os.listxattr(path)


class TestBytecode:
    @pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode), ids=lambda mode: mode.name)
    @pytest.mark.parametrize("touched", [False, True])
    def test_what_is_taken_for_the_sources_own_is_what_python_runs(
        self, tmp_path: Path, mode: py_compile.PycInvalidationMode, touched: bool
    ) -> None:
        source = tmp_path / "module.py"
        source.write_text("print('old')\n")
        compiled = py_compile.compile(str(source), doraise=True, invalidation_mode=mode)
        then = source.stat().st_mtime + touched
        source.write_text("print('new')\n")
        os.utime(source, (then, then))
        argv = [sys.executable, "-B", "-c", "import module"]
        ran = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert patch_agent.is_run(str(compiled), source.stat()) == (ran == "old\n")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may make files immutable")
    @pytest.mark.parametrize("mode", list(py_compile.PycInvalidationMode), ids=lambda mode: mode.name)
    def test_what_would_hide_the_change_and_stays_is_a_reason_to_refuse(
        self, tree: HostTree, path: Path, mode: py_compile.PycInvalidationMode
    ) -> None:
        """A change that does not take effect is never called made."""
        compiled = py_compile.compile(str(path), doraise=True, invalidation_mode=mode)
        os.utime(path, (0, 0))
        subprocess.run(["chattr", "+i", str(compiled)], check=True)
        try:
            if mode is py_compile.PycInvalidationMode.UNCHECKED_HASH:
                with pytest.raises(RefusedError, match=str(compiled)):
                    send(tree, "new", (path, b"# new\n"))
                assert path.read_bytes() == OLD
                (change,) = transaction.status(tree)
                assert (change.state, str(compiled) in change.notes[0]) == ("undone", True)
            else:
                send(tree, "new", (path, b"# new\n"))
                assert path.read_bytes() == b"# new\n"
        finally:
            subprocess.run(["chattr", "-i", str(compiled)], check=True)


class TestLinks:
    def test_a_link_into_a_cache_that_was_emptied_is_not_put_back(
        self, tree: HostTree, path: Path, tmp_path: Path
    ) -> None:
        cache = tmp_path / "cache.py"
        for emptied in (cache.unlink, lambda: cache.write_bytes(b"# another version\n")):
            shutil.copy(path, cache)
            path.unlink()
            path.symlink_to(cache)
            made = send(tree, "new", (path, b"# new\n"))
            emptied()
            transaction.rollback(tree, made)
            assert (path.is_symlink(), path.read_bytes()) == (False, OLD)

    def test_a_link_to_what_is_no_source_is_refused_and_named(
        self, tree: HostTree, path: Path, tmp_path: Path
    ) -> None:
        secret = tmp_path / "id_ed25519"
        secret.write_text("get_value_buffer(0) in a private key")
        path.unlink()
        path.symlink_to(secret)
        plan = tree.plan(PATCH, MLA)
        assert (plan.state, f"a link to {secret}" in plan.reason) == (PlanState.UNREADABLE, True)
        files, _, unread = tree.search("sglang", ["private key"], [])
        assert (files, [file for file, _ in unread]) == ((), [str(path)])


class TestASearchThatDoesNotSeeEverything:
    def test_one_that_runs_out_of_time_says_from_where_on(
        self, tree: HostTree, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(transaction, "SEARCH", -1)
        files, looked, unread = tree.search("sglang", ["def"], [])
        assert (files, looked) == ((), 0)
        assert unread == (
            (f"{root}/sglang", "neither it nor what comes after it was looked at: the time was up"),
        )

    def test_a_directory_that_cannot_be_listed_is_named(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listed, closed = os.scandir, f"{root}/sglang/srt"

        def scandir(path: str) -> Any:
            if path == closed:
                raise PermissionError(13, "Permission denied", path)
            return listed(path)

        monkeypatch.setattr(os, "scandir", scandir)
        asked = {"roots": [str(root)], "package": "sglang", "needles": [], "skipped": [], "seconds": 60}
        assert patch_agent.search(asked)["unread"] == [[closed, f"{closed}: Permission denied"]]


OF_TWO_FILES = Patch.model_validate(
    {
        "id": "of-two-files",
        "title": "a patch",
        "distribution": "sglang",
        "edits": [
            {"modules": [BACKEND], "find": "$X.get_value_buffer(0)", "replace": "$X.get_value_buffer(1)"},
            {"modules": [POOL], "find": "self.kv_buffer = []", "replace": "self.kv_buffer = [0]"},
        ],
        "examples": [{"title": "as it is", "before": "x.get_value_buffer(0)"}],
    }
)


class TestTwoFiles:
    """A change of two files is made of both or of none."""

    @pytest.fixture
    def paths(self, root: Path) -> tuple[Path, Path]:
        return module_path(root, BACKEND), module_path(root, POOL)

    @pytest.mark.parametrize("last", ["apply", "rollback"])
    @pytest.mark.slow
    def test_cut_anywhere(self, root: Path, ledger: Path, paths: tuple[Path, Path], last: str) -> None:
        host = Host()
        tree = host_tree(root, ledger, host)
        old = [path.read_bytes() for path in paths]
        new = [b"# one\n", b"# two\n"]
        mixed = False
        for at in range(9, 200, 4):
            host.at, host.when, survived = at, "after", True
            try:
                made = send(tree, "both", *zip(paths, new, strict=True))
            except UnreachableError:
                survived = False
            host.at = 0
            now = [path.read_bytes() for path in paths]
            mixed |= now not in (old, new)
            for found, one, other in zip(now, old, new, strict=True):
                assert found in (one, other)
            if last == "apply":
                transaction.settle(tree)
                now = [path.read_bytes() for path in paths]
                states = [change.state for change in transaction.status(tree)]
                assert (now, states) in ((old, []), (old, ["undone"]), (new, ["applied"]))
            elif changes := transaction.status(tree):
                assert transaction.rollback(tree, changes[0].id).state in ("undone", "reverted")
                assert [path.read_bytes() for path in paths] == old
            shutil.rmtree(ledger, ignore_errors=True)
            for path, data in zip(paths, old, strict=True):
                path.write_bytes(data)
            if survived:
                break
        assert survived
        assert made
        assert mixed

    @pytest.mark.slow
    def test_what_was_left_in_between_is_settled_before_a_change_is_planned(
        self, root: Path, ledger: Path, paths: tuple[Path, Path]
    ) -> None:
        host = Host()
        target = PatchTarget(host_tree(root, ledger, host), f"{root}/sglang", (OF_TWO_FILES,))
        old = [path.read_bytes() for path in paths]
        new = [
            old[0].replace(b"get_value_buffer(0)", b"get_value_buffer(1)"),
            old[1].replace(b"= []", b"= [0]"),
        ]
        for at in range(20, 60, 3):
            host.at, host.when = at, "after"
            with contextlib.suppress(UnreachableError):
                send(target.tree, OF_TWO_FILES.id, *zip(paths, new, strict=True))
            host.at = 0
            if [path.read_bytes() for path in paths] == [new[0], old[1]]:
                break
            shutil.rmtree(ledger)
        ((_, plan),) = survey(target)
        assert (plan.state, "cut short" in plan.reason) == (PlanState.AMBIGUOUS, True)
        (change,) = apply_all(target, survey(target, settle=True))
        assert (change.state, change.new) == ("applied", True)
        assert [path.read_bytes() for path in paths] == new


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account too")
def test_a_stranger_holds_nobody_up(tree: HostTree, root: Path, path: Path, tmp_path: Path) -> None:
    """Not by the directory of the package, which everybody can open, and not by the ledger's own lock."""
    for above in path.parents:
        if len(above.parts) > 2:
            above.chmod(0o755)
    change = send(tree, "a", (path, OLD + b"# one\n"))
    (lock,) = (found for found in tmp_path.rglob("lock") if found.is_file())
    hold = """
import fcntl, os, sys, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in sys.argv[1:]:
    try:
        fcntl.flock(os.open(name, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print("held", end=" ")
    except OSError as error:
        print(type(error).__name__, end=" ")
print(flush=True)
time.sleep(60)
"""
    argv = [sys.executable, "-c", hold, str(path.parent), str(lock)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as stranger:
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"held PermissionError \n"
        tree.agent.ask("rolling back", change, op="rollback", change=change, by="me")
        stranger.kill()
    assert path.read_bytes() == OLD


def test_two_whose_ledgers_are_two_do_not_change_one_directory_at_once(
    tree: HostTree, root: Path, path: Path, tmp_path: Path
) -> None:
    other = host_tree(root, tmp_path / "of another user")
    held = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match=f"it changes files in {path.parent}"):
            send(other, "b", (path, OLD + b"#\n"))
        assert path.read_bytes() == OLD
    finally:
        os.close(held)
    change = send(tree, "a", (path, OLD + b"# one\n"))
    send(other, "b", (path, OLD + b"# two\n"))
    held = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="another run"):
            tree.agent.ask("rolling back", change, op="rollback", change=change, by="me")
    finally:
        os.close(held)
