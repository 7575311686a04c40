"""The transaction, run for real on this machine's disk by the agent."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import py_compile
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.patching.hosts import Host, host_tree
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install, module_path
from triage.common.errors import RefusedError, TriageError, UnreachableError, UsageError
from triage.patching import transaction
from triage.patching.ledger import PatchChange
from triage.patching.load import find_patch
from triage.patching.model import Plan, PlanState
from triage.patching.transaction import HostTree

PATCH = find_patch("sglang-triton-value-head-dim")
MLA = {"pool_class": "MLATokenToKVPool"}
OLD = BACKEND_SOURCE.encode()
NOBODY = 65534


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def tree(root: Path, ledger: Path) -> HostTree:
    return host_tree(root, ledger)


def plan(tree: HostTree) -> Plan:
    return tree.fresh().plan(PATCH, MLA)


def apply(tree: HostTree) -> PatchChange:
    return transaction.apply(tree, PATCH, plan(tree), MLA)


def backend(root: Path) -> Path:
    return module_path(root, BACKEND)


def litter(root: Path) -> list[Path]:
    return [path for path in root.rglob(".*") if path.is_file()]


def test_apply_and_roll_back(root: Path, tree: HostTree, ledger: Path) -> None:
    path = backend(root)
    change = apply(tree)
    assert (change.state, change.new, change.version) == ("applied", True, "0.5.11")
    assert path.read_bytes() == OLD.replace(
        b".get_value_buffer(0)", b".get_value_buffer(model_runner.token_to_kv_pool.start_layer)"
    )
    assert plan(tree).state is PlanState.APPLIED
    assert [item.id for item in transaction.status(tree)] == [change.id]
    assert litter(root) == []

    reverted = transaction.rollback(tree, change.id)
    assert (reverted.state, reverted.new) == ("reverted", True)
    assert path.read_bytes() == OLD
    assert plan(tree).state is PlanState.APPLICABLE
    assert litter(root) == []


def test_a_second_apply_writes_nothing(root: Path, tree: HostTree, ledger: Path) -> None:
    planned = plan(tree)
    first = transaction.apply(tree, PATCH, planned, MLA)
    before = snapshot(root, ledger)
    second = apply(tree)
    assert (second.id, second.state, second.new) == (first.id, "applied", False)
    assert snapshot(root, ledger) == before
    # ... nor does an operator who planned before the first one applied.
    third = transaction.apply(tree, PATCH, planned, MLA)
    assert (third.id, third.new) == (first.id, False)
    assert snapshot(root) == {path: state for path, state in before.items() if path.is_relative_to(root)}


def test_a_second_rollback_writes_nothing(root: Path, tree: HostTree, ledger: Path) -> None:
    change = apply(tree)
    transaction.rollback(tree, change.id)
    before = snapshot(root)
    assert not transaction.rollback(tree, change.id).new
    assert snapshot(root) == before


def test_apply_again_after_a_rollback(root: Path, tree: HostTree) -> None:
    first = apply(tree)
    transaction.rollback(tree, first.id)
    second = apply(tree)
    assert second.new
    assert second.id != first.id
    transaction.rollback(tree, second.id)
    assert backend(root).read_bytes() == OLD


def test_mode_and_attributes_stay(root: Path, tree: HostTree) -> None:
    path = backend(root)
    path.chmod(0o640)
    os.setxattr(path, "user.origin", b"wheel")
    if os.geteuid() == 0:
        os.chown(path, 1234, 4321)
    before = path.stat()
    change = apply(tree)
    for _ in range(2):
        now = path.stat()
        assert stat.S_IMODE(now.st_mode) == 0o640
        assert (now.st_uid, now.st_gid) == (before.st_uid, before.st_gid)
        assert os.getxattr(path, "user.origin") == b"wheel"
        transaction.rollback(tree, change.id)


def test_a_hard_link_is_cut_off_and_never_written_through(root: Path, tree: HostTree, tmp_path: Path) -> None:
    cache = tmp_path / "cache.py"
    os.link(backend(root), cache)
    change = apply(tree)
    assert cache.read_bytes() == OLD
    assert change.files[0].links == 2
    assert (cache.stat().st_nlink, backend(root).stat().st_nlink) == (1, 1)


def test_a_symbolic_link_into_a_cache_is_replaced_and_comes_back(
    root: Path, tree: HostTree, tmp_path: Path
) -> None:
    path, cache = backend(root), tmp_path / "cache.py"
    shutil.move(path, cache)
    path.symlink_to(cache)
    change = apply(tree)
    assert cache.read_bytes() == OLD
    assert (path.is_symlink(), path.read_bytes() == OLD) == (False, False)
    transaction.rollback(tree, change.id)
    assert (path.is_symlink(), os.readlink(path)) == (True, str(cache))


def test_a_symlinked_tree_is_recorded_where_it_is(root: Path, ledger: Path, tmp_path: Path) -> None:
    alias = tmp_path / "alias"
    alias.symlink_to(root)
    change = apply(host_tree(alias, ledger))
    assert change.files[0].path == str(backend(root))
    assert plan(host_tree(root, ledger)).state is PlanState.APPLIED


def test_stale_bytecode_is_gone(root: Path, tree: HostTree) -> None:
    path = backend(root)
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compiled = py_compile.compile(str(path), doraise=True, invalidation_mode=unchecked)
    neighbour = path.parent / "__pycache__" / "triton_backend_ops.cpython-311.pyc"
    neighbour.write_bytes(b"")
    change = apply(tree)
    assert not Path(str(compiled)).exists()
    assert neighbour.exists()
    assert change.notes == ()


def test_no_bytecode_is_written(root: Path, tree: HostTree) -> None:
    apply(tree)
    assert list(root.rglob("*.pyc")) == []


def test_a_file_that_changed_since_the_plan_is_left_alone(root: Path, tree: HostTree, ledger: Path) -> None:
    planned = plan(tree)
    backend(root).write_bytes(OLD + b"# edited\n")
    with pytest.raises(RefusedError, match="not what the change was planned on"):
        transaction.apply(tree, PATCH, planned, MLA)
    assert backend(root).read_bytes() == OLD + b"# edited\n"
    assert transaction.status(tree) == ()


def test_a_rollback_of_a_file_that_changed_since_is_refused(root: Path, tree: HostTree) -> None:
    change = apply(tree)
    edited = backend(root).read_bytes() + b"# edited\n"
    backend(root).write_bytes(edited)
    assert plan(tree).state is PlanState.DRIFTED
    with pytest.raises(RefusedError, match="has changed since"):
        transaction.rollback(tree, change.id)
    assert backend(root).read_bytes() == edited
    assert transaction.status(tree)[0].state == "applied"


def test_a_reinstalled_package_can_be_patched_again(root: Path, tree: HostTree) -> None:
    first = apply(tree)
    install(root)
    assert plan(tree).state is PlanState.APPLICABLE
    second = apply(tree)
    with pytest.raises(RefusedError, match="changed the same file later") as caught:
        transaction.rollback(tree, first.id)
    assert second.id in str(caught.value.next)
    transaction.rollback(tree, second.id)
    assert backend(root).read_bytes() == OLD


def test_an_upgrade_makes_the_old_change_history(root: Path, tree: HostTree) -> None:
    apply(tree)
    install(root, version="0.5.12", triton_backend=BACKEND_SOURCE + "# 0.5.12\n")
    assert plan(tree).state is PlanState.APPLICABLE
    assert [(item.version, item.installed) for item in transaction.status(tree)] == [("0.5.11", "0.5.12")]
    assert apply(tree).version == "0.5.12"


@pytest.mark.parametrize("state", sorted(set(PlanState) - {PlanState.APPLICABLE, PlanState.APPLIED}))
def test_only_applicable_can_be_applied(root: Path, tree: HostTree, state: PlanState) -> None:
    with pytest.raises(RefusedError, match=state.value):
        transaction.apply(tree, PATCH, Plan(PATCH.id, state, "because"), MLA)
    assert backend(root).read_bytes() == OLD


def test_an_open_question_is_not_applied(root: Path, tree: HostTree) -> None:
    planned = tree.plan(PATCH)
    assert planned.state is PlanState.APPLICABLE
    with pytest.raises(RefusedError, match="pool class that serves is not known"):
        transaction.apply(tree, PATCH, planned)
    assert backend(root).read_bytes() == OLD


def test_what_the_targets_interpreter_cannot_compile_is_not_written(root: Path, tree: HostTree) -> None:
    broken = plan(tree).edits[0].after.replace(b"class TritonAttnBackend:", b"class TritonAttnBackend")
    with pytest.raises(RefusedError, match=r"would not compile under Python 3\.\d+"):
        transaction.apply(tree, PATCH, with_text(plan(tree), broken), MLA)
    assert backend(root).read_bytes() == OLD
    assert transaction.status(tree) == ()


def test_a_write_that_does_not_give_the_fix_is_not_called_done(root: Path, tree: HostTree) -> None:
    with pytest.raises(TriageError) as caught:
        transaction.apply(tree, PATCH, with_text(plan(tree), OLD + b"# nothing fixed\n"), MLA)
    assert "the source does not have the fix's shape" in caught.value.happened
    assert "rollback" in str(caught.value.next)


def test_a_change_of_nothing_is_refused(root: Path, tree: HostTree) -> None:
    with pytest.raises(RefusedError, match="already has the new content"):
        transaction.apply(tree, PATCH, with_text(plan(tree), OLD), MLA)
    assert transaction.status(tree) == ()


def with_text(planned: Plan, after: bytes) -> Plan:
    (edit,) = planned.edits
    return dataclasses.replace(planned, edits=(dataclasses.replace(edit, after=after),))


def test_two_operators_at_once(root: Path, tree: HostTree, ledger: Path) -> None:
    (ledger / "changes").mkdir(parents=True)
    with (ledger / "lock").open("w") as held:
        held.write("somebody@desk, pid 4711, since 2026-05-12T14:00:00Z")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RefusedError, match="somebody@desk, pid 4711"):
            apply(tree)
        assert transaction.status(tree) == ()  # looking needs no lock
    assert backend(root).read_bytes() == OLD
    assert apply(tree).state == "applied"


def test_an_unknown_change(tree: HostTree) -> None:
    for name in ("no-such-change", "../../etc", ""):
        with pytest.raises(UsageError, match="there is no change"):
            transaction.rollback(tree, name)


def test_a_damaged_backup_is_not_put_back(root: Path, tree: HostTree, ledger: Path) -> None:
    change = apply(tree)
    new = backend(root).read_bytes()
    (ledger / "changes" / change.id / "0.before").write_bytes(b"something else")
    with pytest.raises(RefusedError, match="not what was put away"):
        transaction.rollback(tree, change.id)
    assert backend(root).read_bytes() == new
    assert transaction.status(tree)[0].state == "applied"


def test_export_is_the_diff_that_was_made(root: Path, tree: HostTree) -> None:
    planned = plan(tree)
    change = transaction.apply(tree, PATCH, planned, MLA)
    (edit,) = transaction.export(tree.fresh(), change.id)
    assert edit.diff() == planned.diff()
    backend(root).write_bytes(b"")
    with pytest.raises(RefusedError, match="not as the change left it"):
        transaction.export(tree.fresh(), change.id)


def test_an_interpreter_that_is_not_there(root: Path, ledger: Path) -> None:
    with pytest.raises(UnreachableError, match="there is no /no/python") as caught:
        plan(host_tree(root, ledger, python="/no/python"))
    assert "--python" in str(caught.value.next)


def test_an_interpreter_that_answers_nonsense(root: Path, ledger: Path, tmp_path: Path) -> None:
    old = "echo 'Unknown option: -I' >&2; exit 2"  # as Python 2 says
    for text in ("echo hello", "echo '[1]'", "echo '{\"ok\": true}'", old):
        fake = tmp_path / "python"
        fake.write_text(f"#!/bin/sh\ncat >/dev/null\n{text}\n")
        fake.chmod(0o755)
        with pytest.raises(UnreachableError) as caught:
            plan(host_tree(root, ledger, python=str(fake)))
        assert ("--python" in str(caught.value.next)) == (text == old)


def old_interpreters() -> list[str]:
    """Other Pythons of this machine that the agent must run under."""
    found = [shutil.which(f"python3.{minor}") for minor in range(6, 14)]
    found = [path for path in found if path and "/shims/" not in path]  # pyenv's; those it has follow
    versions = Path(os.environ.get("PYENV_ROOT", "/nowhere")) / "versions"
    found += [str(path) for path in versions.glob("3.*/bin/python")]
    return [path for path in dict.fromkeys(found) if path and _works(path)]


def _works(python: str) -> bool:
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run([python, "-c", ""], capture_output=True, timeout=20).returncode == 0
    return False


@pytest.mark.parametrize("python", [sys.executable, *old_interpreters()])
def test_the_agent_runs_under_every_interpreter_here(root: Path, ledger: Path, python: str) -> None:
    tree = host_tree(root, ledger, python=python)
    change = apply(tree)
    assert change.new
    assert transaction.rollback(tree, change.id).state == "reverted"
    assert backend(root).read_bytes() == OLD


class TestCutShort:
    """The agent dies at a call that it makes to the machine; the next run finds the truth and fixes it."""

    # One call in four; `-m benchmark` takes all of them.
    every = pytest.mark.parametrize(
        "every", [pytest.param(4, id="sample"), pytest.param(1, id="all", marks=pytest.mark.benchmark)]
    )

    @pytest.fixture
    def host(self) -> Host:
        return Host()

    @every
    @pytest.mark.parametrize(("when", "calls"), [("before", 20), ("after", 20), ("half", 3)])
    def test_apply(self, root: Path, ledger: Path, host: Host, when: str, calls: int, every: int) -> None:
        tree = host_tree(root, ledger, host)
        planned = plan(tree)
        new = planned.edits[0].after
        for at in range(1, 200, 1 if when == "half" else every):
            self.reset(root, ledger)
            host.at, host.when = at, when
            survived = self.attempt(tree, planned)
            host.at = 0
            assert backend(root).read_bytes() in (OLD, new)
            if backend(root).read_bytes() == new:
                assert [item.state for item in transaction.status(tree)] in (["applying"], ["applied"])
            transaction.recover(tree)
            self.check_settled(tree, root, new)
            if survived:
                break
        assert survived
        assert at > calls

    @every
    @pytest.mark.parametrize(("when", "calls"), [("before", 15), ("after", 15), ("half", 3)])
    def test_rollback(self, root: Path, ledger: Path, host: Host, when: str, calls: int, every: int) -> None:
        tree = host_tree(root, ledger, host)
        planned = plan(tree)
        new = planned.edits[0].after
        for at in range(1, 200, 1 if when == "half" else every):
            self.reset(root, ledger)
            change = self.send(tree, planned)
            host.at, host.when = at, when
            survived = self.attempt_rollback(tree, change)
            host.at = 0
            assert backend(root).read_bytes() in (OLD, new)
            transaction.recover(tree)
            (state,) = [item.state for item in transaction.status(tree)]
            assert (state, backend(root).read_bytes()) in (("applied", new), ("reverted", OLD))
            assert litter(root) == []
            assert transaction.rollback(tree, change).state == "reverted"
            assert backend(root).read_bytes() == OLD
            if survived:
                break
        assert survived
        assert at > calls

    @every
    def test_recovery_that_is_cut_short_itself(
        self, root: Path, ledger: Path, host: Host, every: int
    ) -> None:
        tree = host_tree(root, ledger, host)
        planned = plan(tree)
        new = planned.edits[0].after
        for first in (15, 20, 25, 30):
            for at in range(1, 60, every):
                self.reset(root, ledger)
                host.at, host.when = first, "after"
                self.attempt(tree, planned)
                host.at = at
                with contextlib.suppress(UnreachableError):
                    transaction.recover(tree)
                    at = 0
                host.at = 0
                assert backend(root).read_bytes() in (OLD, new)
                transaction.recover(tree)
                self.check_settled(tree, root, new)
                if not at:
                    break

    @pytest.mark.parametrize(
        ("number", "when"),
        [(errno.ENOSPC, "before"), (errno.EROFS, "before"), (errno.EIO, "before"), (errno.ESTALE, "after")],
    )  # the last is a server whose answer was lost
    @every
    def test_a_call_that_fails_takes_everything_back(
        self, root: Path, ledger: Path, host: Host, number: int, when: str, every: int
    ) -> None:
        tree = host_tree(root, ledger, host)
        host.when = when
        planned = plan(tree)
        new = planned.edits[0].after
        for at in range(1, 200, every):
            host.at, host.fail = at, number
            survived = self.attempt(tree, planned, os.strerror(number))
            host.at, host.fail = 0, 0
            assert backend(root).read_bytes() in (OLD, new)
            transaction.recover(tree)
            self.check_settled(tree, root, new)
            if survived:
                break
            self.reset(root, ledger)
        assert survived

    def test_the_next_apply_mends_and_goes_on(self, root: Path, ledger: Path, host: Host) -> None:
        tree = host_tree(root, ledger, host)
        for at in range(10, 40, 7):
            host.at, host.when = at, "after"
            self.attempt(tree, plan(tree))
            host.at = 0
            assert apply(tree).state == "applied"
            assert plan(tree).state is PlanState.APPLIED
            self.reset(root, ledger)

    def test_a_file_that_somebody_changed_after_the_cut_is_left_alone(
        self, root: Path, ledger: Path, host: Host
    ) -> None:
        tree = host_tree(root, ledger, host)
        planned = plan(tree)
        calls = self.trace(root, ledger, host)
        self.reset(root, ledger)
        host.at, host.when = 1 + next(
            index for index, (name, shown, _) in enumerate(calls)
            if name == "rename" and shown[-1] == "triton_backend.py"
        ), "after"  # fmt: skip
        self.attempt(tree, planned)
        host.at = 0
        assert backend(root).read_bytes() == planned.edits[0].after
        backend(root).write_bytes(b"edited by hand\n")
        (change,) = transaction.recover(tree)
        assert (change.state, backend(root).read_bytes()) == ("abandoned", b"edited by hand\n")
        assert "by another hand" in change.notes[0]

    def test_a_tree_that_is_gone_does_not_block_the_others(
        self, root: Path, ledger: Path, host: Host, tmp_path: Path
    ) -> None:
        tree = host_tree(root, ledger, host)
        host.at, host.when = 25, "after"
        self.attempt(tree, plan(tree))
        host.at = 0
        shutil.rmtree(root)
        other = install(tmp_path / "other")
        assert apply(host_tree(other, ledger)).state == "applied"

    def test_what_is_renamed_was_synced_before(self, root: Path, ledger: Path, host: Host) -> None:
        calls = self.trace(root, ledger, host)
        dirty: dict[int, bool] = {}
        renames = 0
        for name, shown, result in calls:
            if name == "open":
                dirty[result] = False
            elif name == "write":
                dirty[shown[0]] = True
            elif name == "fsync":
                dirty[shown[0]] = False
            elif name == "rename":
                renames += 1
                assert not any(dirty.values()), shown
        assert renames == 3  # the record, the file, the record's last word
        assert [name for name, *_ in calls].count("fsync") >= 7

    def trace(self, root: Path, ledger: Path, host: Host) -> list[list]:  # type: ignore[type-arg]
        """The calls of one apply that nothing disturbs."""
        tree = host_tree(root, ledger, host)
        planned = plan(tree)
        log = root.parent / "calls.log"
        host.log = str(log)
        self.send(tree, planned)
        host.log = ""
        return [json.loads(line) for line in log.read_text().splitlines()]

    def send(self, tree: HostTree, planned: Plan) -> str:
        """The writing half of `apply` alone, in one run of the agent; gives the change's id."""
        edits = [transaction._sent(edit) for edit in planned.edits]
        answer = tree.agent.ask(
            "applying", "it", op="apply", patch=PATCH.id, distribution="sglang", by="me", files=edits
        )
        return str(answer["change"]["id"])

    def attempt(self, tree: HostTree, planned: Plan, words: str = "") -> bool:
        try:
            self.send(tree, planned)
        except UnreachableError as error:
            if words not in error.happened:
                raise
            return False
        return True

    def attempt_rollback(self, tree: HostTree, change: str) -> bool:
        try:
            transaction.rollback(tree, change)
        except UnreachableError:
            return False
        return True

    def check_settled(self, tree: HostTree, root: Path, new: bytes) -> None:
        states = [item.state for item in transaction.status(tree)]
        assert states in ([], ["undone"], ["applied"])
        assert (backend(root).read_bytes() == new) == (states == ["applied"])
        assert litter(root) == []

    def reset(self, root: Path, ledger: Path) -> None:
        install(root)
        shutil.rmtree(ledger, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_files_of_somebody_else_are_refused() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        root = install(Path(name) / "site-packages")
        (Path(name) / "ledger").mkdir()
        os.chown(Path(name) / "ledger", NOBODY, NOBODY)
        tree = host_tree(root, Path(name) / "ledger", UnprivilegedHost(), "/usr/bin/python3")
        with pytest.raises(UnreachableError, match=r"triton_backend.py: Permission denied") as caught:
            apply(tree)
        assert "--become" in str(caught.value.next)
        assert backend(root).read_bytes() == OLD
        os.chown(backend(root).parent, NOBODY, NOBODY)  # may write there, and the file is still root's
        with pytest.raises(UnreachableError, match=r"triton_backend.py: Operation not permitted"):
            apply(tree)
        assert backend(root).read_bytes() == OLD
        assert litter(root) == []
        assert [item.state for item in transaction.status(tree)] == ["undone", "undone"]


class UnprivilegedHost(Host):
    def run(self, argv, **options):  # type: ignore[no-untyped-def]
        return super().run(
            ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *argv], **options
        )


def snapshot(*roots: Path) -> dict[Path, tuple[object, ...]]:
    """Everything below some directories: inodes, times and bytes. Locks are not part of it."""
    found: dict[Path, tuple[object, ...]] = {}
    for root in roots:
        for path in sorted(root.rglob("*")):
            if path.name != "lock":
                state = path.lstat()
                found[path] = (
                    state.st_ino,
                    state.st_mtime_ns,
                    path.read_bytes() if path.is_file() else b"",
                )
    return found
