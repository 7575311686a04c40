"""The shipped patches, proven: the real constructors raise before and ask for their own layer after.

Without torch there is no proof; it comes with the `torch` extra, which the tests are run with.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.patching.test_functions import PROOFS
from tests.patching.wheels import WheelTree, wheel
from triage.patching.load import find_patch, load_patches
from triage.patching.model import PlanState
from triage.patching.plan import plan_patch

# Of 61 layers over 8 stages, stage 2 owns 14 to 20. It starts later than it has layers.
START, LAYERS = 14, 7
WIDTHS = {"mla": 512, "mha": 128, "swa": 128}
CLASSES = {"mla": "MLATokenToKVPool", "mha": "MHATokenToKVPool", "swa": "SWAKVPool"}
KINDS = {
    "sglang-minimax-sparse-value-head-dim": ["mha"],
    "sglang-aiter-value-head-dim": ["mha"],
    "sglang-triton-swa-value-head-dim": ["swa"],
}
INDEX_ERROR = "IndexError: list index out of range"
ERRORS = {"swa": "KeyError: 0"}
BACKENDS = {
    "sglang-triton-value-head-dim": ("sglang.srt.layers.attention.triton_backend", "TritonAttnBackend"),
    "sglang-wave-value-head-dim": ("sglang.srt.layers.attention.wave_backend", "WaveAttnBackend"),
    "sglang-amx-value-head-dim": ("sglang.srt.layers.attention.intel_amx_backend", "IntelAMXAttnBackend"),
    "sglang-minimax-sparse-value-head-dim": ("sglang.srt.mem_cache.memory_pool", "MiniMaxSparseKVPool"),
    "sglang-aiter-value-head-dim": ("sglang.srt.layers.attention.aiter_backend", "AiterAttnBackend"),
    "sglang-triton-swa-value-head-dim": ("sglang.srt.layers.attention.triton_backend", "TritonAttnBackend"),
}
VERSIONS = {
    "sglang-triton-value-head-dim": ["0.4.6.post2", "0.4.9", "0.5.1", "0.5.3", "0.5.9", "0.5.11", "0.5.17"],
    "sglang-wave-value-head-dim": ["0.5.1", "0.5.3", "0.5.9", "0.5.11", "0.5.17", "0.5.18", "0.5.23"],
    "sglang-amx-value-head-dim": ["0.4.9", "0.5.1", "0.5.3", "0.5.9", "0.5.11", "0.5.18", "0.5.23"],
    "sglang-minimax-sparse-value-head-dim": ["0.5.17"],
    "sglang-aiter-value-head-dim": ["0.4.9", "0.5.3", "0.5.9", "0.5.11", "0.5.17"],
    "sglang-triton-swa-value-head-dim": ["0.5.9", "0.5.11", "0.5.17", "0.5.18", "0.5.23"],
}
FIXED = {
    "sglang-triton-value-head-dim": ["0.5.18", "0.5.23"],
    "sglang-minimax-sparse-value-head-dim": ["0.5.18", "0.5.23"],
}


def test_every_shipped_patch_has_its_proof() -> None:
    assert {*VERSIONS, *PROOFS} == {patch.id for patch in load_patches()}


@pytest.mark.parametrize("id", VERSIONS)
def test_raises_before_and_asks_for_its_own_layer_after(id: str, tmp_path: Path) -> None:
    before, after = [], []
    for version in VERSIONS[id]:
        root = unpacked(version, tmp_path)
        before += jobs(id, root)
    found = run(before)
    assert [item.get("error") for item in found] == [ERRORS.get(job[3], INDEX_ERROR) for job in before]
    assert [item["asked"] for item in found] == [[0]] * len(before)
    for version in VERSIONS[id]:
        root = tmp_path / version
        patch(id, version, root)
        after += jobs(id, root)
    check_fixed(run(after), after)


@pytest.mark.parametrize("id", FIXED)
def test_what_upstream_fixed_asks_for_its_own_layer(id: str, tmp_path: Path) -> None:
    there = [job for version in FIXED[id] for job in jobs(id, unpacked(version, tmp_path))]
    check_fixed(run(there), there)


def check_fixed(found: list[dict[str, Any]], asked: list[list[Any]]) -> None:
    assert found == [{"asked": [START], "v_head_dim": WIDTHS[job[3]]} for job in asked]


def jobs(id: str, root: Path) -> list[list[Any]]:
    kinds = KINDS.get(id, ["mla", "mha"])
    return [[str(root), *BACKENDS[id], kind, START, LAYERS] for kind in kinds]


def unpacked(version: str, directory: Path) -> Path:
    tree = WheelTree(wheel("sglang", version))
    return tree.unpack(directory / version, "sglang/srt/layers/attention/", "sglang/srt/mem_cache/")


def patch(id: str, version: str, root: Path) -> None:
    plan = plan_patch(
        find_patch(id),
        WheelTree(wheel("sglang", version)),
        {"pool_class": CLASSES[KINDS.get(id, ["mla"])[-1]]},
    )
    assert plan.state is PlanState.APPLICABLE, plan.reason
    for edit in plan.edits:
        root.joinpath(*edit.module.split(".")).with_suffix(".py").write_bytes(edit.after)


def run(work: list[list[Any]]) -> list[dict[str, Any]]:
    script = Path(__file__).with_name("constructor.py")
    done = subprocess.run(
        [sys.executable, "-B", str(script)],
        input=json.dumps(work), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]
