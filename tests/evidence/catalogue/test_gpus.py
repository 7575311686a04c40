"""The samples are composed, in the shape of what hosts print; those of eight GPUs say where that is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.evidence.catalogue.conftest import recorded
from tests.evidence.conftest import ScriptedHost
from triage.evidence.catalogue import GpuInventory, GpuTopology, Place, Places, RocmInventory
from triage.evidence.discovery.environment import compile_caches
from triage.evidence.model import Unanswered
from triage.hosts import Output

Ask = Callable[..., Any]


def test_topology(ask: Ask) -> None:
    found = ask(GpuTopology(), "gpu-topology")
    assert found.links["GPU0", "GPU3"] == "NV18"
    assert (found.links["GPU0", "NIC0"], found.links["NIC1", "GPU3"]) == ("PIX", "NODE")
    assert ("GPU0", "GPU0") not in found.links
    assert found.numa == {"GPU0": "0", "GPU1": "0", "GPU2": "1", "GPU3": "1"}
    assert found.kinds == {"NV18": 6}


def test_eight_gpus_behind_a_switch(ask: Ask) -> None:
    found = ask(GpuTopology(), "gpu-topology-nvswitch")
    assert found.kinds == {"NV18": 28}
    assert (found.links["GPU7", "NIC7"], found.links["NIC0", "GPU1"]) == ("PIX", "NODE")
    assert found.numa == {f"GPU{number}": str(number // 4) for number in range(8)}


def test_eight_gpus_on_pcie_alone(ask: Ask) -> None:
    found = ask(GpuTopology(), "gpu-topology-pcie")
    assert found.kinds == {"PIX": 4, "NODE": 8, "SYS": 16}


def test_an_old_driver_with_a_mesh_of_links(ask: Ask) -> None:
    found = ask(GpuTopology(), "gpu-topology-old-driver")
    assert found.kinds == {"NV1": 8, "NV2": 8, "SYS": 12}
    assert found.links["mlx5_bond_1", "GPU4"] == found.links["GPU4", "mlx5_bond_1"] == "PIX"
    assert found.numa == {}


def test_a_gpu_in_parts_is_its_parts(ask: Ask) -> None:
    found = ask(GpuInventory(), "gpu-inventory-mig")
    assert [(gpu.name, gpu.memory_total, gpu.memory_used) for gpu in found.gpus] == [
        ("NVIDIA A100-SXM4-80GB MIG 0", 40192, 20),
        ("NVIDIA A100-SXM4-80GB MIG 1", 19968, 13),
        ("NVIDIA A100-SXM4-80GB", 81920, 3),
    ]


# What nvidia-smi prints on standard output, with its exit status.
FAILURES = {
    "no driver": (
        9,
        b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the "
        b"latest NVIDIA driver is installed and running.\n\n",
        "couldn't communicate with the NVIDIA driver",
    ),
    "mismatch": (
        18,
        b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124\n",
        "Driver/library version mismatch NVML library version: 570.124",
    ),
    "no device": (6, b"No devices were found\n", "No devices were found"),
    "no device, and no status": (0, b"No devices were found\n", "No devices were found"),
    "lost": (
        255,
        b"Unable to determine the device handle for GPU0000:07:00.0: GPU is lost. Reboot the system\n",
        "GPU is lost",
    ),
}


@pytest.mark.parametrize(("code", "said", "why"), FAILURES.values(), ids=FAILURES.keys())
def test_a_tool_that_fails_is_quoted(ask: Ask, code: int, said: bytes, why: str) -> None:
    for query in (GpuInventory(), GpuTopology()):
        with pytest.raises(Unanswered, match=why):
            ask(query, code=code, stdout=said)


def test_a_tool_that_hangs(host: ScriptedHost) -> None:
    host.commands["nvidia-smi -q -x"] = Output(None, b"", cut="time")
    host.commands["nvidia-smi topo -m"] = Output(None, b"\tGPU0\tGPU1\nGPU0\t X \tNV", cut="time")
    assert host.evidence.ask(GpuInventory()).missing == "no answer within 30 s"
    assert host.evidence.ask(GpuTopology()).partial == "time"


@pytest.mark.parametrize(
    ("name", "size", "driver"),
    [
        ("rocm-inventory-amd-smi", 8, "6.10.10"),
        ("rocm-inventory-amd-smi-old", 2, "6.7.0"),
        ("rocm-inventory-8", 8, "6.10.5"),
    ],
)
def test_eight_gpus_of_amd_by_either_tool(ask: Ask, name: str, size: int, driver: str) -> None:
    found = ask(RocmInventory(), name)
    assert (found.driver, len(found.gpus)) == (driver, size)
    assert {gpu.memory_total for gpu in found.gpus} == {196592}


def test_cards_of_amd_are_in_order(ask: Ask) -> None:
    found = ask(RocmInventory(), "rocm-inventory-8")
    assert [gpu.uuid for gpu in found.gpus] == [f"0x{card:x}" for card in (0, 1, 2, 3, 8, 9, 10, 11)]


def test_a_host_with_amd_smi_alone(host: ScriptedHost) -> None:
    host.commands["amd-smi static"] = recorded("rocm-inventory-amd-smi")
    answer = host.evidence.ask(RocmInventory())
    assert len(answer.require().gpus) == 8
    assert answer.command.startswith("amd-smi ")


def test_rocm_smi_without_a_card_is_quoted(ask: Ask) -> None:
    with pytest.raises(Unanswered, match="No JSON data to report"):
        ask(RocmInventory(), stdout=b"\nWARNING: No JSON data to report\n")
    with pytest.raises(Unanswered, match="Driver not initialized"):
        ask(
            RocmInventory(),
            code=1,
            stderr=b"ERROR:root:Driver not initialized (amdgpu not found in modules)\n",
        )


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
