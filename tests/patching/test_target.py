"""Several patches on one tree, applied for real on this machine's disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.patching.hosts import host_tree
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install, module_path, reinstall
from triage.common.errors import TriageError
from triage.patching import transaction
from triage.patching.load import find_patch
from triage.patching.model import PlanState
from triage.patching.schema import Patch
from triage.patching.target import PatchTarget, apply_all, survey, target_at

FIRST = find_patch("sglang-triton-value-head-dim")
RECEIVER = "model_runner.token_to_kv_pool"


def a_patch(id: str, find: str, replace: str) -> Patch:
    return Patch.model_validate(
        {
            "id": id,
            "title": "a patch",
            "distribution": "sglang",
            "edits": [{"modules": [BACKEND], "find": find, "replace": replace}],
            "examples": [{"title": "as it is", "before": find}],
        }
    )


FORWARD = "self.token_to_kv_pool.get_value_buffer(layer.layer_id)"
SECOND = a_patch("second", FORWARD, FORWARD.replace("layer.layer_id", "int(layer.layer_id)"))
RIVAL = a_patch("rival", f"{RECEIVER}.get_value_buffer(0)", f"{RECEIVER}.get_value_buffer(first())")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


def target(root: Path, *patches: Patch) -> PatchTarget:
    tree = host_tree(root, root.parent / "ledger")
    return PatchTarget(tree, str(root / "sglang"), patches, {"pool_class": "MLATokenToKVPool"})


def source(root: Path) -> str:
    return module_path(root, BACKEND).read_text()


def test_each_is_planned_on_the_result_of_those_before(root: Path) -> None:
    both = target(root, FIRST, SECOND)
    (_, first), (_, second) = survey(both)
    assert (first.state, second.state) == (PlanState.APPLICABLE, PlanState.APPLICABLE)
    assert second.edits[0].before == first.edits[0].after
    assert source(root) == BACKEND_SOURCE

    changes = apply_all(both, survey(both))
    assert [(change.patch, change.new) for change in changes] == [(FIRST.id, True), ("second", True)]
    assert source(root).encode() == second.edits[0].after
    assert [plan.state for _, plan in survey(both)] == [PlanState.APPLIED, PlanState.APPLIED]

    assert not any(change.new for change in apply_all(both, survey(both)))
    for change in reversed(changes):
        transaction.rollback(both.tree, change.id)
    assert source(root) == BACKEND_SOURCE


def test_one_that_is_applied_stays_so_when_another_is_planned_on_its_file(root: Path) -> None:
    apply_all(target(root, SECOND), survey(target(root, SECOND)))
    (_, first), (_, second) = survey(target(root, FIRST, SECOND))
    assert (first.state, second.state) == (PlanState.APPLICABLE, PlanState.APPLIED)


def test_two_that_want_the_same_place_are_a_conflict(root: Path) -> None:
    both = target(root, FIRST, RIVAL)
    (_, first), (_, rival) = survey(both)
    assert (first.state, rival.state) == (PlanState.APPLICABLE, PlanState.AMBIGUOUS)
    assert f"it conflicts with {FIRST.id}, on whose result it is not-affected" in rival.reason
    assert [plan.state for _, plan in survey(target(root, RIVAL))] == [PlanState.APPLICABLE]


def test_when_one_fails_those_before_are_taken_back(root: Path) -> None:
    both = target(root, FIRST, SECOND)
    plans = survey(both)
    path = module_path(root, BACKEND)
    path.write_text(BACKEND_SOURCE.replace("# the width", "# a width"))  # behind our back
    plans = (survey(both)[0], plans[1])
    with pytest.raises(TriageError) as caught:
        apply_all(both, plans)
    assert f"{FIRST.id}, made just before, was taken back" in caught.value.happened
    assert path.read_text() == BACKEND_SOURCE.replace("# the width", "# a width")
    assert [change.state for change in transaction.status(both.tree)] == ["reverted"]


def test_a_package_without_a_name_of_a_patch_has_those_on_record(root: Path) -> None:
    there = target(root, FIRST)
    known = (FIRST, SECOND)
    tree = there.tree
    assert (
        target_at(tree.agent.connection, there.package_root, known, (), "", tree.agent.ledger).patches == ()
    )
    apply_all(there, survey(there))
    found = target_at(tree.agent.connection, there.package_root, known, (), "", tree.agent.ledger)
    assert found.patches == (FIRST,)


def test_a_file_that_was_changed_by_hand_is_said_to_be(root: Path) -> None:
    reinstall(root, BACKEND_SOURCE)
    both = target(root, FIRST, SECOND)
    assert [plan.notes for _, plan in survey(both)] == [(), ()]
    apply_all(target(root, FIRST), survey(target(root, FIRST)))
    assert [plan.notes for _, plan in survey(both)] == [(), ()]  # by us, which is on record

    transaction.rollback(both.tree, transaction.status(both.tree)[0].id)
    module_path(root, BACKEND).write_text(BACKEND_SOURCE.replace("# the width", "# a width"))
    (_, first), (_, second) = survey(both)
    assert first.state is PlanState.APPLICABLE
    assert first.notes == second.notes
    assert "was changed by hand since sglang was installed" in first.notes[0]
