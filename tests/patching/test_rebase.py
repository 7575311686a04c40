"""After an upgrade, a new installation or another hand, for real on this machine's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.patching.hosts import host_tree
from tests.patching.test_target import FIRST, RECEIVER, SECOND, target
from tests.patching.trees import BACKEND, BACKEND_SOURCE, POOL_SOURCE, install, module_path, reinstall
from triage.patching import transaction
from triage.patching.model import PlanState
from triage.patching.rebase import Rebased, apply_again, rebase
from triage.patching.schema import Patch
from triage.patching.target import apply_all, survey
from triage.patching.transaction import HostTree

FIXED = BACKEND_SOURCE.replace("buffer(0)", f"buffer({RECEIVER}.start_layer)")
KNOWN = (FIRST, SECOND)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


@pytest.fixture
def bare(root: Path) -> HostTree:
    """The host's ledger, as one comes to it: without a place to look."""
    agent = host_tree(root, root.parent / "ledger").agent
    return HostTree(agent.connection, (), agent.python, agent.ledger)


def apply(root: Path, *patches: Patch) -> None:
    there = target(root, *patches)
    apply_all(there, survey(there))


def states(tree: HostTree) -> list[str]:
    return [change.state for change in transaction.status(tree)]


def one(found: tuple[Rebased, ...]) -> Rebased:
    (item,) = found
    return item


def test_what_is_in_place_stays(root: Path, bare: HostTree) -> None:
    apply(root, FIRST, SECOND)
    found = rebase(bare, KNOWN)
    assert [item.verdict for item in found] == ["in place", "in place"]
    assert apply_again(bare, found) == ()
    assert states(bare) == ["applied", "applied"]


def test_an_upgrade_that_has_the_fix_needs_nothing(root: Path, bare: HostTree) -> None:
    apply(root, FIRST)
    install(root, "0.5.18", triton_backend=FIXED)
    item = one(rebase(bare, KNOWN))
    assert (item.verdict, item.plan and item.plan.state) == ("needs nothing", PlanState.FIXED_UPSTREAM)
    assert apply_again(bare, (item,)) == ()
    assert module_path(root, BACKEND).read_text() == FIXED
    (change,) = transaction.status(bare)
    assert change.state == "abandoned"
    assert change.notes == (
        "sglang 0.5.11 was replaced by 0.5.18, and the change with it, where it needs nothing",
    )
    assert rebase(bare, KNOWN) == ()


def test_an_upgrade_without_the_fix_gets_the_change_again(root: Path, bare: HostTree) -> None:
    apply(root, FIRST, SECOND)
    newer = BACKEND_SOURCE.replace('"""Attention, in triton."""', "import math")
    install(root, "0.5.12", triton_backend=newer)
    found = rebase(bare, KNOWN)
    assert [item.verdict for item in found] == ["applies again", "applies again"]
    assert module_path(root, BACKEND).read_text() == newer
    assert states(bare) == ["applied", "applied"]  # asking changes nothing
    made = apply_again(bare, found)
    assert [(change.patch, change.version) for change in made] == [(FIRST.id, "0.5.12"), ("second", "0.5.12")]
    text = module_path(root, BACKEND).read_text()
    assert ("start_layer" in text, "int(layer.layer_id)" in text, "import math" in text) == (True, True, True)
    assert states(bare) == ["abandoned", "abandoned", "applied", "applied"]
    assert [item.verdict for item in rebase(bare, KNOWN)] == ["in place", "in place"]


def test_a_package_installed_again_gets_the_change_again(root: Path, bare: HostTree) -> None:
    apply(root, FIRST)
    changed = module_path(root, BACKEND).read_text()
    reinstall(root, BACKEND_SOURCE)
    item = one(rebase(bare, KNOWN))
    assert (item.verdict, "was installed again" in item.outlook.happened) == ("applies again", True)
    (made,) = apply_again(bare, (item,))
    assert module_path(root, BACKEND).read_text() == changed
    assert states(bare) == ["abandoned", "applied"]
    transaction.rollback(bare, made.id)
    assert module_path(root, BACKEND).read_text() == BACKEND_SOURCE


def test_what_was_known_of_the_deployment_is_remembered(root: Path, bare: HostTree) -> None:
    apply(root, FIRST)
    reinstall(root, BACKEND_SOURCE)
    assert one(rebase(bare, KNOWN)).verdict == "applies again"
    other = one(rebase(bare, KNOWN, {"pool_class": "SWAKVPool"}))
    assert (other.verdict, other.plan and other.plan.state) == ("conflict", PlanState.BLOCKED)


def test_a_conflict_shows_the_site_and_the_change_as_it_was(root: Path, bare: HostTree) -> None:
    apply(root, FIRST)
    pool = POOL_SOURCE.replace("layer_id - self.start_layer", "layer_id")
    install(root, "0.5.12", memory_pool=pool)
    item = one(rebase(bare, KNOWN))
    assert item.verdict == "conflict"
    assert item.plan
    assert item.plan.state is PlanState.BLOCKED
    assert [site.line for site in item.plan.sites] == [9]
    assert "-            self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(0)" in item.diff
    assert apply_again(bare, (item,)) == ()
    assert module_path(root, BACKEND).read_text() == BACKEND_SOURCE
    assert states(bare) == ["abandoned"]  # it is gone with the old version, whatever comes now


def test_another_hand(root: Path, bare: HostTree) -> None:
    apply(root, FIRST)
    path = module_path(root, BACKEND)
    changed = path.read_text()
    path.write_text(changed + "x = 1\n")
    assert one(rebase(bare, KNOWN)).verdict == "in place"  # the fix stands, beside something else
    path.write_text(changed.replace(f"{RECEIVER}.start_layer", "first_layer()"))
    item = one(rebase(bare, KNOWN))
    assert (item.verdict, item.closes) == ("conflict", False)
    assert (
        "+            self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(first_layer())"
        in item.diff
    )
    assert "start_layer" in item.diff
    assert apply_again(bare, (item,)) == ()
    assert states(bare) == ["applied"]


def test_a_package_that_was_removed_and_a_patch_that_nobody_knows(root: Path, bare: HostTree) -> None:
    apply(root, FIRST)
    unknown = one(rebase(bare, ()))
    assert (unknown.verdict, unknown.plan) == ("in place", None)
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert one(rebase(bare, ())).verdict == "conflict"
    gone = one(rebase(bare, KNOWN))
    assert (gone.verdict, gone.plan and gone.plan.state) == ("needs nothing", PlanState.NOT_INSTALLED)
    apply_again(bare, (gone,))
    assert states(bare) == ["abandoned"]
