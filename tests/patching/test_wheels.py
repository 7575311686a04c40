"""The story's patch against the released sources that it is for. Needs PyPI once; wheels are cached."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

import pytest

from tests.patching.hosts import host_tree
from tests.patching.wheels import WheelTree, wheel
from triage.patching import inspect, transaction
from triage.patching.edits import look
from triage.patching.load import find_patch
from triage.patching.model import FileEdit, Plan, PlanState, SourceFile
from triage.patching.plan import plan_patch
from triage.patching.source import parse

PATCH = find_patch("sglang-triton-value-head-dim")
BACKEND = "sglang.srt.layers.attention.triton_backend"
POOLS = ("sglang.srt.mem_cache.memory_pool", "sglang.srt.mem_cache.swa_memory_pool")
RECEIVER = b"model_runner.token_to_kv_pool"

BLOCKED, APPLICABLE, FIXED = PlanState.BLOCKED, PlanState.APPLICABLE, PlanState.FIXED_UPSTREAM
# version -> line of the site, state with MLA and MHA pools, with SWAKVPool, and is any pool of the tree safe
MATRIX: dict[str, tuple[int, PlanState, PlanState | None, bool | None]] = {
    "0.4.6.post1": (143, BLOCKED, None, False),  # no pipeline parallelism yet
    "0.4.6.post2": (143, APPLICABLE, None, True),
    "0.4.9": (115, APPLICABLE, BLOCKED, None),
    "0.5.1": (83, APPLICABLE, BLOCKED, None),
    "0.5.3": (92, APPLICABLE, BLOCKED, None),
    "0.5.9": (102, APPLICABLE, BLOCKED, True),  # SWAKVPool has start_layer, and does not subtract it
    "0.5.11": (120, APPLICABLE, BLOCKED, True),
    "0.5.17": (208, APPLICABLE, BLOCKED, True),
    "0.5.18": (238, FIXED, FIXED, None),
    "0.5.23": (309, FIXED, FIXED, None),
}
VULNERABLE = [version for version, row in MATRIX.items() if row[1] is APPLICABLE]


@functools.cache
def tree(version: str) -> WheelTree:
    return WheelTree(wheel("sglang", version))


def plan(version: str, pool: str = "") -> Plan:
    return plan_patch(PATCH, tree(version), {"pool_class": pool} if pool else {})


def read(version: str, module: str = BACKEND) -> SourceFile:
    file = tree(version).read(module)
    assert file is not None
    return file


@pytest.mark.parametrize("version", MATRIX)
def test_state_and_site(version: str) -> None:
    line, state, swa, _ = MATRIX[version]
    for pool in ("MLATokenToKVPool", "MHATokenToKVPool"):
        found = plan(version, pool)
        assert found.state is state, found.reason
        assert [site.line for site in found.sites] == [line]
        assert found.sites[0].path.endswith("/triton_backend.py")
        assert bool(found.edits) == (state is APPLICABLE)
    if swa is not None:
        found = plan(version, "SWAKVPool")
        assert (found.state, found.edits) == (swa, ())


@pytest.mark.parametrize("version", [version for version, row in MATRIX.items() if row[1] is not FIXED])
def test_a_pool_that_nobody_named(version: str) -> None:
    safe = MATRIX[version][3]
    found = plan(version)
    assert found.state is (BLOCKED if safe is False else APPLICABLE)
    assert {check.holds for check in found.checks} == {safe}


@pytest.mark.parametrize("version", VULNERABLE)
def test_the_edit_is_upstreams_and_nothing_else(version: str) -> None:
    (edit,) = plan(version, "MLATokenToKVPool").edits
    assert edit.before == read(version).data
    assert edit.after == edit.before.replace(
        RECEIVER + b".get_value_buffer(0)", RECEIVER + b".get_value_buffer(" + RECEIVER + b".start_layer)"
    )
    compile(edit.after, edit.path, "exec", dont_inherit=True)
    again = plan_patch(PATCH, Patched(version, edit), {"pool_class": "MLATokenToKVPool"})
    assert (again.state, again.edits, len(again.sites)) == (FIXED, (), 1)


@dataclasses.dataclass
class Patched:
    """A released tree with one file edited."""

    version: str
    edit: FileEdit

    def read(self, module: str) -> SourceFile | None:
        file = tree(self.version).read(module)
        if file is not None and file.module == self.edit.module:
            return dataclasses.replace(file, data=self.edit.after)
        return file


@pytest.mark.parametrize("version", ["0.5.3", "0.5.9", "0.5.11", "0.5.17"])
def test_an_inner_pool_that_counts_from_0_is_not_a_site(version: str) -> None:
    pool = read(version, POOLS[0])
    assert b"self.full_kv_pool.get_value_buffer(0)" in pool.data
    anywhere = PATCH.edits[0].model_copy(update={"modules": (POOLS[0],), "inside": None})
    assert look(anywhere, pool.path, pool.data).sites == ()


@pytest.mark.parametrize("version", MATRIX)
def test_sources_come_back_byte_for_byte(version: str) -> None:
    modules = [BACKEND, *POOLS, "sglang.srt.models.qwen2_classification"]
    files = [file for module in modules if (file := tree(version).read(module)) is not None]
    for file in files:
        source = parse(file.data)
        assert source.encode(source.utf8) == file.data
        assert len(list(source.segments(lambda part: b"get_value_buffer" in part))) >= (
            "KVCache" in str(file.data)
        )
    assert len(files) >= 3
    if version == "0.5.11":
        assert files[-1].data.startswith(b"\xef\xbb\xbf")  # a byte order mark is part of the sample


# `start_layer` and what subtracts it, class by class.
@pytest.mark.parametrize(
    ("version", "name", "has", "subtracts"),
    [
        ("0.4.6.post1", "MLATokenToKVPool", False, False),
        ("0.4.6.post2", "MHATokenToKVPool", True, True),
        ("0.4.9", "SWAKVPool", False, False),
        ("0.4.9", "AscendMLAPagedTokenToKVPool", True, True),
        ("0.5.3", "HybridLinearKVPool", False, False),
        ("0.5.9", "SWAKVPool", True, False),
        ("0.5.11", "MLATokenToKVPool", True, True),
        ("0.5.11", "MHATokenToKVPoolFP4", True, True),
        ("0.5.17", "MHATokenToKVPool", True, True),  # by way of a local variable
        ("0.5.23", "SWAKVPool", True, False),  # subtracts it, and not from an index
        ("0.5.23", "DSATokenToKVPool", True, True),
    ],
)
def test_pool_classes(version: str, name: str, has: bool, subtracts: bool) -> None:
    owner = inspect.find_class(tree(version), POOLS, name)
    assert owner is not None
    assert inspect.has_attribute(tree(version), owner, "start_layer").holds is has
    assert inspect.indexes_from(tree(version), owner, "get_value_buffer", "start_layer").holds is subtracts


def test_the_storys_release_patched_and_restored_on_disk(tmp_path: Path) -> None:
    root = tree("0.5.11").unpack(
        tmp_path / "site-packages",
        "sglang/__init__.py",
        "sglang/srt/layers/attention/",
        "sglang/srt/mem_cache/",
    )
    path = root.joinpath(*BACKEND.split(".")).with_suffix(".py")
    before = {file: file.read_bytes() for file in root.rglob("*") if file.is_file()}
    host = host_tree(root, tmp_path / "ledger")
    context = {"pool_class": "MLATokenToKVPool"}
    change = transaction.apply(host, PATCH, host.plan(PATCH, context), context)
    assert (change.version, change.new) == ("0.5.11", True)
    changed = [file for file, data in before.items() if file.read_bytes() != data]
    assert changed == [path]
    assert not transaction.apply(host, PATCH, host.fresh().plan(PATCH, context), context).new
    transaction.rollback(host, change.id)
    assert {file: file.read_bytes() for file in root.rglob("*") if file.is_file()} == before
