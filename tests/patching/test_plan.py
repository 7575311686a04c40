from __future__ import annotations

import hashlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.patching.trees import BACKEND, BACKEND_SOURCE, POOL, POOL_SOURCE, install, module_path
from triage.patching.ledger import ChangedFile, LedgerView, PatchChange
from triage.patching.load import find_patch
from triage.patching.model import Plan, PlanState
from triage.patching.plan import plan_patch
from triage.patching.trees import DirectoryTree

PATCH = find_patch("sglang-triton-value-head-dim")
MLA = {"pool_class": "MLATokenToKVPool"}
SWA = {"pool_class": "SWAKVPool"}


def plan(root: Path, context: dict[str, str] = MLA, **modules: str) -> Plan:
    return plan_patch(PATCH, DirectoryTree(install(root, **modules)), context)


def patched(root: Path) -> str:
    return plan(root).edits[0].after.decode()


def test_applicable(tmp_path: Path) -> None:
    found = plan(tmp_path)
    assert found.state is PlanState.APPLICABLE
    (edit,) = found.edits
    assert edit.path == str(module_path(tmp_path, BACKEND))
    assert edit.before.decode() == BACKEND_SOURCE
    receiver = "model_runner.token_to_kv_pool"
    assert edit.after.decode() == BACKEND_SOURCE.replace(
        f"{receiver}.get_value_buffer(0)", f"{receiver}.get_value_buffer({receiver}.start_layer)"
    )
    assert [(site.line, site.end_line) for site in found.sites] == [(9, 11)]
    assert [check.holds for check in found.checks] == [True, True]
    assert (
        "+            self.v_head_dim = model_runner.token_to_kv_pool.get_value_buffer(model" in found.diff()
    )


def test_planning_twice_gives_the_same_and_planning_on_the_result_the_fix(tmp_path: Path) -> None:
    assert plan(tmp_path) == plan(tmp_path)
    found = plan(tmp_path, triton_backend=patched(tmp_path))
    assert (found.state, found.edits, len(found.sites)) == (PlanState.FIXED_UPSTREAM, (), 1)


def test_the_pool_that_serves_decides(tmp_path: Path) -> None:
    blocked = plan(tmp_path, SWA)
    assert (blocked.state, blocked.edits) == (PlanState.BLOCKED, ())
    assert "SWAKVPool neither assigns nor inherits start_layer" in blocked.reason


def test_a_pool_that_has_the_attribute_but_does_not_subtract_it_is_not_fixed(tmp_path: Path) -> None:
    pool = POOL_SOURCE.replace("self.layers_mapping = layers", "self.start_layer = 0")
    blocked = plan(tmp_path, SWA, memory_pool=pool)
    assert blocked.state is PlanState.BLOCKED
    assert "does not subtract start_layer" in blocked.reason


def test_where_nobody_knows_which_pool_serves(tmp_path: Path) -> None:
    found = plan(tmp_path, {})
    assert found.state is PlanState.APPLICABLE
    assert [check.holds for check in found.checks] == [None]
    assert (
        "SWAKVPool neither assigns nor inherits start_layer, and the pool class that serves is not known"
        in (found.reason)
    )
    every = POOL_SOURCE.replace("self.layers_mapping = layers", "self.start_layer = 0")
    assert [check.holds for check in plan(tmp_path, {}, memory_pool=every).checks] == [True]


def test_a_tree_without_pipeline_parallelism_is_refused(tmp_path: Path) -> None:
    pool = POOL_SOURCE.replace("self.start_layer = start_layer or 0", "pass").replace(
        " - self.start_layer", ""
    )
    for context in ({}, MLA, {"pool_class": "Unheard"}):
        assert plan(tmp_path, context, memory_pool=pool).state is PlanState.BLOCKED


def test_a_pool_that_is_not_found_is_an_open_question(tmp_path: Path) -> None:
    found = plan(tmp_path, {"pool_class": "MysteryPool"})
    assert found.state is PlanState.APPLICABLE
    assert found.checks[0].holds is None
    assert "MysteryPool, which serves, was not found" in found.reason


@pytest.mark.parametrize(
    ("source", "state", "words"),
    [
        (
            BACKEND_SOURCE.replace("get_value_buffer(0)", "get_v_head_dim()"),
            PlanState.NOT_AFFECTED,
            "neither",
        ),
        (
            BACKEND_SOURCE.replace("model_runner.token_to_kv_pool", "self.inner"),
            PlanState.NOT_AFFECTED,
            "neither",
        ),
        (BACKEND_SOURCE.replace("TritonAttnBackend", "Renamed"), PlanState.AMBIGUOUS, "stands outside"),
        (BACKEND_SOURCE + "\nx = a.token_to_kv_pool.get_value_buffer(0)\n", PlanState.AMBIGUOUS, "outside"),
        (
            BACKEND_SOURCE.replace("is_hybrid", "token_to_kv_pool.get_value_buffer(0)"),
            PlanState.AMBIGUOUS,
            "2 times",
        ),
        (
            BACKEND_SOURCE.replace(
                "is_hybrid", "token_to_kv_pool.get_value_buffer(model_runner.token_to_kv_pool.start_layer)"
            ),
            PlanState.AMBIGUOUS,
            "once its fix",
        ),
        ("def f(:\n" + BACKEND_SOURCE, PlanState.UNREADABLE, "line 1"),
    ],
)
def test_other_sources(tmp_path: Path, source: str, state: PlanState, words: str) -> None:
    found = plan(tmp_path, triton_backend=source)
    assert (found.state, found.edits) == (state, ())
    assert words in found.reason


def test_absent_is_not_fixed(tmp_path: Path) -> None:
    assert plan_patch(PATCH, DirectoryTree(tmp_path)).state is PlanState.NOT_INSTALLED
    module_path(install(tmp_path), BACKEND).unlink()
    assert plan_patch(PATCH, DirectoryTree(tmp_path)).state is PlanState.NOT_AFFECTED


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    install(tmp_path)
    path = module_path(tmp_path, POOL)
    path.unlink()
    path.mkdir()
    found = plan_patch(PATCH, DirectoryTree(tmp_path))
    assert (found.state, str(path) in found.reason) == (PlanState.UNREADABLE, True)


class TestWithALedger:
    def changes(self, root: Path, *links: tuple[str, str, str]) -> LedgerView:
        """Changes of the backend's file, each a patch and the texts before and after it."""
        path = str(module_path(root, BACKEND))
        return LedgerView(
            tuple(
                PatchChange(
                    f"{index}", patch, "applied", "2026-05-12T14:00:00Z", "me", "sglang", "0.5.11", "0.5.11",
                    (ChangedFile(BACKEND, path, digest(before), digest(after)),),
                )
                for index, (patch, before, after) in enumerate(links)
            )
        )  # fmt: skip

    def plan(self, root: Path, ledger: LedgerView) -> Plan:
        return plan_patch(PATCH, DirectoryTree(root), MLA, ledger)

    def test_applied(self, tmp_path: Path) -> None:
        new = patched(tmp_path)
        install(tmp_path, triton_backend=new)
        found = self.plan(tmp_path, self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, new)))
        assert (found.state, found.reason) == (PlanState.APPLIED, "applied 2026-05-12T14:00:00Z by me")
        assert len(found.sites) == 1

    def test_drifted(self, tmp_path: Path) -> None:
        new = patched(tmp_path)
        ledger = self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, new))
        install(tmp_path, triton_backend=new + "# a note\n")
        kept = self.plan(tmp_path, ledger)
        assert kept.state is PlanState.DRIFTED
        assert kept.reason.endswith("the fix's shape is still there")
        install(tmp_path, triton_backend=BACKEND_SOURCE + "# a note\n")
        lost = self.plan(tmp_path, ledger)
        assert lost.state is PlanState.DRIFTED
        assert lost.reason.endswith("the fix's shape is gone")

    def test_reinstalled_behind_our_back(self, tmp_path: Path) -> None:
        ledger = self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, patched(tmp_path)))
        install(tmp_path)
        assert self.plan(tmp_path, ledger).state is PlanState.APPLICABLE

    def test_another_version_installed_since(self, tmp_path: Path) -> None:
        new = patched(tmp_path)
        ledger = self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, new))
        ledger = LedgerView((replace(ledger.changes[0], installed="0.5.18"),))
        install(tmp_path, triton_backend=new + "# 0.5.18\n")
        assert self.plan(tmp_path, ledger).state is PlanState.FIXED_UPSTREAM

    def test_rolled_back(self, tmp_path: Path) -> None:
        new = patched(tmp_path)
        ledger = self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, new))
        ledger = LedgerView((replace(ledger.changes[0], state="reverted"),))
        install(tmp_path, triton_backend=new)
        assert self.plan(tmp_path, ledger).state is PlanState.FIXED_UPSTREAM

    def test_another_patch_on_top(self, tmp_path: Path) -> None:
        new = patched(tmp_path)
        newer = new + "# another patch\n"
        install(tmp_path, triton_backend=newer)
        ledger = self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, new), ("other", new, newer))
        assert self.plan(tmp_path, ledger).state is PlanState.APPLIED
        broken = self.changes(tmp_path, (PATCH.id, BACKEND_SOURCE, new), ("other", "?", newer))
        assert self.plan(tmp_path, broken).state is PlanState.DRIFTED

    def test_a_change_of_another_tree(self, tmp_path: Path) -> None:
        one, other = tmp_path / "one", tmp_path / "other"
        ledger = self.changes(install(one), (PATCH.id, BACKEND_SOURCE, patched(one)))
        install(other)
        assert self.plan(other, ledger).state is PlanState.APPLICABLE


def test_planning_imports_nothing_that_talks_to_a_host() -> None:
    import subprocess

    program = "import sys, triage.patching.plan, triage.patching.edits; print('paramiko' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n", done.stderr


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
