from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from triage.evidence.catalogue import DiskFree, GpuInventory, ListeningPorts, MemoryInfo, OsRelease
from triage.evidence.model import Unanswered

Ask = Callable[..., Any]


def test_gpus(ask: Ask) -> None:
    found = ask(GpuInventory(), "gpu-inventory")
    assert (found.driver, found.cuda, len(found.gpus)) == ("580.65.06", "13.0", 2)
    assert found.gpus[0].name == "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert (found.gpus[0].memory_total, found.gpus[0].memory_used) == (97887, 0)
    assert found.gpus[1].memory_used is None


def test_no_gpu_driver_is_a_missing_answer(ask: Ask) -> None:
    with pytest.raises(Unanswered, match="not on this host"):
        ask(GpuInventory(), code=127)
    with pytest.raises(Unanswered, match="couldn't communicate"):
        ask(
            GpuInventory(),
            code=9,
            stdout=b"",
            stderr=b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
        )


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"No devices were found\n",
        b"<nvidia_smi_log>",
        b'<!DOCTYPE x [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><nvidia_smi_log>&c;</nvidia_smi_log>',
    ],
)
def test_garbage_is_no_inventory(ask: Ask, answer: bytes) -> None:
    with pytest.raises(Unanswered):
        ask(GpuInventory(), stdout=answer)


def test_memory(ask: Ask) -> None:
    memory = ask(MemoryInfo(), "meminfo")
    assert memory["MemTotal"] == 25276059648
    assert memory["HugePages_Total"] == 0
    with pytest.raises(Unanswered):
        ask(MemoryInfo(), stdout=b"MemTotal: lots\n")


def test_disk(ask: Ask) -> None:
    disk = ask(DiskFree("/dev/shm"), "df")
    assert (disk.total, disk.available, disk.mounted_on) == (2527608832, 2527608832, "/dev/shm")
    for answer in (b"", b"df: x\n", b"a b c d e\n"):
        with pytest.raises(Unanswered):
            ask(DiskFree("/x"), stdout=answer)


def test_ports(ask: Ask) -> None:
    ports = {listener.port: listener for listener in ask(ListeningPorts(), "ports")}
    assert set(ports) == {53857, 22, 2024}
    assert (ports[22].address, ports[22].process, ports[22].pid) == ("127.0.1.77", "sshd", 33)
    assert (ports[2024].process, ports[2024].pid) == ("", None)


def test_distribution(ask: Ask) -> None:
    assert ask(OsRelease(), "os")["VERSION_CODENAME"] == "bookworm"
    assert ask(OsRelease(), stdout=b'ID="unclosed\n# x\nODD\n') == {"ID": '"unclosed'}
