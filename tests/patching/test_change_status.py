"""What becomes of a change: on real files, with a real process where one matters."""

from __future__ import annotations

import ast
import os
import py_compile
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.patching.hosts import Host, host_tree
from tests.patching.test_target import FIRST, SECOND, target
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install, module_path, reinstall
from triage.common.commands import command
from triage.evidence.model import Deployment
from triage.patching import transaction
from triage.patching.change_status import Outlook, look, not_running
from triage.patching.ledger import PatchChange
from triage.patching.schema import Patch
from triage.patching.target import apply_all, survey
from triage.patching.transaction import HostTree
from triage.remote import program_text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


@pytest.fixture
def tree(root: Path) -> HostTree:
    return host_tree(root, root.parent / "ledger")


@pytest.fixture
def process(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Something that was started before whatever the test does."""
    with subprocess.Popen(["sleep", "60"]) as child:
        time.sleep(0.05)
        yield child
        child.terminate()


def apply(root: Path, *patches: Patch) -> tuple[PatchChange, ...]:
    there = target(root, *patches)
    return apply_all(there, survey(there))


def service(root: Path, pid: int | None = None) -> Deployment:
    return Deployment(
        "kimi.service",
        unit="kimi.service",
        serving_pid=pid,
        python=sys.executable,
        package_root=str(root / "sglang"),
    )


def outlooks(tree: HostTree, *deployments: Deployment) -> tuple[Outlook, ...]:
    return look(tree.agent, transaction.status(tree), deployments)


def test_a_process_from_before_the_change_does_not_run_it_and_one_from_after_does(
    root: Path, tree: HostTree, process: subprocess.Popen[bytes]
) -> None:
    apply(root, FIRST)
    (before,) = outlooks(tree, service(root, process.pid))
    assert (before.happened, [run.current for run in before.runs]) == ("", [False])
    assert before.next == command("verify", "local", "--unit", "kimi.service")
    changes = transaction.status(tree)
    assert not_running(tree.agent, changes, service(root, process.pid)) == (FIRST.id,)
    time.sleep(0.05)
    with subprocess.Popen(["sleep", "60"]) as younger:
        (after,) = outlooks(tree, service(root, younger.pid))
        assert not_running(tree.agent, changes, service(root, younger.pid)) == ()
        younger.terminate()
    assert ([run.current for run in after.runs], after.next) == ([True], None)


def test_after_a_rollback_the_process_still_runs_the_change(
    root: Path, tree: HostTree, process: subprocess.Popen[bytes]
) -> None:
    (change,) = apply(root, FIRST)
    transaction.rollback(tree, change.id)
    (found,) = outlooks(tree, service(root, process.pid))
    assert [run.current for run in found.runs] == [False]
    assert found.next is not None
    assert found.next.verb == ("verify",)


def test_a_service_that_does_not_run_and_one_of_another_tree(
    root: Path, tree: HostTree, tmp_path: Path
) -> None:
    apply(root, FIRST)
    (stopped,) = outlooks(tree, service(root))
    assert ([run.current for run in stopped.runs], stopped.next) == ([None], None)
    (elsewhere,) = outlooks(tree, service(install(tmp_path / "other"), os.getpid()))
    assert [run.why for run in elsewhere.runs] == [f"imports from {tmp_path}/other"]
    assert outlooks(tree)[0].runs == ()


def test_a_tree_behind_a_link_is_the_same_tree(root: Path, tree: HostTree, tmp_path: Path) -> None:
    apply(root, FIRST)
    (tmp_path / "linked").symlink_to(root)
    (found,) = outlooks(tree, service(tmp_path / "linked", os.getpid()))
    assert [run.current for run in found.runs] == [False]


@pytest.mark.parametrize(
    ("mode", "stale"),
    [
        (py_compile.PycInvalidationMode.UNCHECKED_HASH, True),
        (py_compile.PycInvalidationMode.CHECKED_HASH, False),
        (py_compile.PycInvalidationMode.TIMESTAMP, False),
    ],
)
def test_bytecode_that_python_would_run_in_place_of_the_source(
    root: Path, tree: HostTree, mode: py_compile.PycInvalidationMode, stale: bool
) -> None:
    apply(root, FIRST)
    path = module_path(root, BACKEND)
    changed = path.read_text()
    path.write_text(BACKEND_SOURCE)
    compiled = py_compile.compile(str(path), invalidation_mode=mode)
    path.write_text(changed)
    time.sleep(0.05)
    with subprocess.Popen(["sleep", "60"]) as younger:
        (found,) = outlooks(tree, service(root, younger.pid))
        younger.terminate()
    assert [run.current for run in found.runs] == [not stale]
    assert (str(compiled) in found.runs[0].why) == stale
    # Python itself agrees.
    names = f"import {BACKEND} as module; print(*module.TritonAttnBackend.__init__.__code__.co_names)"
    argv = [sys.executable, "-B", "-c", names]
    loaded = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    assert ("start_layer" in loaded.stdout) == (not stale)


def test_bytecode_of_the_same_second_and_size(root: Path, tree: HostTree) -> None:
    apply(root, FIRST)
    path = module_path(root, BACKEND)
    changed = path.read_bytes()
    path.write_bytes(changed.replace(b"triton", b"TRITON"))
    os.utime(path, (1_000_000_000, 1_000_000_000))
    compiled = py_compile.compile(str(path))
    assert compiled
    os.utime(compiled, (1_000_000_000, 1_000_000_000))
    path.write_bytes(changed)
    os.utime(path, (1_000_000_000, 1_000_000_000.5))
    (found,) = outlooks(tree, service(root, os.getpid()))
    assert compiled in found.runs[0].why


@pytest.mark.parametrize(
    ("text", "version", "expected"),
    [
        (BACKEND_SOURCE, "0.5.11", "sglang 0.5.11 was installed again at "),
        (BACKEND_SOURCE, "0.5.12", "sglang 0.5.11 was replaced by 0.5.12, and the change with it"),
        (BACKEND_SOURCE + "# built elsewhere\n", "0.5.11", "another build of it: "),
    ],
)
def test_installed_again(root: Path, tree: HostTree, text: str, version: str, expected: str) -> None:
    apply(root, FIRST)
    reinstall(root, text, version)
    (found,) = outlooks(tree, service(root, os.getpid()))
    assert expected in found.happened
    assert (found.runs, found.next) == ((), command("patch rebase", "local"))


def test_other_hands(root: Path, tree: HostTree) -> None:
    apply(root, FIRST)
    path = module_path(root, BACKEND)
    path.write_text(BACKEND_SOURCE)
    assert f"another hand put the old bytes of {path} back at 20" in outlooks(tree)[0].happened
    path.write_text(BACKEND_SOURCE + "x = 1\n")
    assert f"another hand edited {path} at 20" in outlooks(tree)[0].happened
    path.unlink()
    assert f"{path} is gone" in outlooks(tree)[0].happened


def test_one_change_on_another_is_no_other_hand(root: Path, tree: HostTree) -> None:
    apply(root, FIRST, SECOND)
    assert [found.happened for found in outlooks(tree)] == ["", ""]


def test_an_interrupted_change_says_what_finishes_it(root: Path, tree: HostTree) -> None:
    (change,) = apply(root, FIRST)
    (found,) = look(tree.agent, (replace(change, state="applying"),), ())
    assert (found.happened, found.next) == (
        "cut short",
        command("patch", "local", "--id", FIRST.id, "--apply"),
    )


def test_nothing_is_asked_where_nothing_was_changed() -> None:
    host = Host()
    assert look(host_tree(Path("/"), Path("/none"), host).agent, (), ()) == ()
    assert host.runs == 0


@pytest.mark.parametrize("name", ["patch_agent", "patch_observer", "patch_standalone"])
def test_what_is_sent_to_a_host_is_python_3_6(name: str) -> None:
    source = program_text(name)
    ast.parse(source, feature_version=(3, 6))
    assert "from __future__ import annotations" not in source  # 3.7
