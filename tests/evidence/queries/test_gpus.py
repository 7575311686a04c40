"""The samples have the shape of what a host with four NVIDIA GPUs and one with two of AMD print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from triage.evidence.environment import compile_caches
from triage.evidence.model import Unanswered
from triage.evidence.queries import GpuTopology, Place, Places, RocmInventory

Ask = Callable[..., Any]


def test_topology(ask: Ask) -> None:
    found = ask(GpuTopology(), "gpu-topology")
    assert found.links["GPU0", "GPU3"] == "NV18"
    assert (found.links["GPU0", "NIC0"], found.links["NIC1", "GPU3"]) == ("PIX", "NODE")
    assert ("GPU0", "GPU0") not in found.links
    assert found.numa == {"GPU0": "0", "GPU1": "0", "GPU2": "1", "GPU3": "1"}
    assert found.kinds == {"NV18": 6}


def test_gpus_of_amd(ask: Ask) -> None:
    found = ask(RocmInventory(), "rocm-inventory")
    assert (found.driver, found.cuda) == ("6.10.5", "")
    assert [(gpu.name, gpu.memory_total, gpu.memory_used) for gpu in found.gpus] == [
        ("AMD Instinct MI300X", 196592, 283)
    ] * 2


@pytest.mark.parametrize(
    "stdout", [b"", b"No devices were found\n", b"{" * 90_000, b"[1]", b'{"card0": 3}', b"\t\n"]
)
def test_answers_that_are_none(ask: Ask, stdout: bytes) -> None:
    for query in (GpuTopology(), RocmInventory()):
        with pytest.raises(Unanswered):
            ask(query, stdout=stdout)


def test_places(ask: Ask) -> None:
    query = Places(("/home/svc/.triton/cache", "/none"))
    told = b"directory|root|755|/home/svc/.triton/cache\ndirectory|root|755|/elsewhere\n"
    gone = b"stat: cannot statx '/none': No such file or directory\n"
    assert ask(query, code=1, stdout=told, stderr=gone) == (
        Place("/home/svc/.triton/cache", "directory", "root", "755"),
    )
    with pytest.raises(Unanswered):
        ask(query, code=127)


def test_where_compiled_kernels_are_kept() -> None:
    found = compile_caches(
        {"HOME": "/home/svc", "TRITON_CACHE_DIR": "/scratch/triton", "VLLM_CACHE_ROOT": "x"}
    )
    assert found["TRITON_CACHE_DIR"] == "/scratch/triton"
    assert found["CUDA_CACHE_PATH"] == "/home/svc/.nv/ComputeCache"
    assert "VLLM_CACHE_ROOT" not in found
    assert compile_caches({}) == {}
