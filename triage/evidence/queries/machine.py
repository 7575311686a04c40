"""The machine: GPUs, memory, disks, ports, system."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.model import MEBI, Query, Unanswered

_MEMINFO = re.compile(r"(\w[\w()]*): +(\d+)( kB)?")
_USERS = re.compile(r'"([^"]{1,64})",pid=(\d+)')


@dataclass(frozen=True)
class Gpu:
    """One GPU. Memory in MiB, None where the driver does not tell."""

    name: str
    uuid: str
    memory_total: int | None
    memory_used: int | None


@dataclass(frozen=True)
class Gpus:
    driver: str
    cuda: str
    gpus: tuple[Gpu, ...]


@dataclass(frozen=True)
class GpuInventory(Query[Gpus]):
    """NVIDIA GPUs.

    <nvidia_smi_log><driver_version>580.65.06</driver_version><cuda_version>13.0</cuda_version>
      <gpu id="..."><product_name>NVIDIA H200</product_name><uuid>GPU-...</uuid>
        <fb_memory_usage><total>143771 MiB</total><used>4 MiB</used>...
    """

    name: ClassVar[str] = "gpu-inventory"
    purpose: ClassVar[str] = "know the GPUs, their memory and the driver"
    limit: ClassVar[int] = 4 * MEBI

    def argv(self) -> tuple[str, ...]:
        return ("nvidia-smi", "-q", "-x")

    def parse(self, text: str) -> Gpus:
        from xml.etree import ElementTree

        if "<!ENTITY" in text:
            raise Unanswered("nvidia-smi's answer declares XML entities")
        try:
            root = ElementTree.fromstring(text)
        except ElementTree.ParseError as error:
            raise Unanswered(f"nvidia-smi's answer is not XML: {error}") from None
        gpus = tuple(
            Gpu(
                (gpu.findtext("product_name") or "").strip(),
                (gpu.findtext("uuid") or "").strip(),
                _mebibytes(gpu.findtext("fb_memory_usage/total")),
                _mebibytes(gpu.findtext("fb_memory_usage/used")),
            )
            for gpu in root.iter("gpu")
        )
        return Gpus(
            (root.findtext("driver_version") or "").strip(),
            (root.findtext("cuda_version") or "").strip(),
            gpus,
        )


@dataclass(frozen=True)
class MemoryInfo(Query[Mapping[str, int]]):
    """/proc/meminfo in bytes: `MemTotal`, `MemAvailable`, `SwapFree`, `Shmem`, ..."""

    name: ClassVar[str] = "memory"
    purpose: ClassVar[str] = "know how much memory the host has left"

    def argv(self) -> tuple[str, ...]:
        return ("cat", "/proc/meminfo")

    def parse(self, text: str) -> Mapping[str, int]:
        found = (_MEMINFO.fullmatch(line) for line in text.splitlines())
        values = {match[1]: int(match[2]) * (1024 if match[3] else 1) for match in found if match}
        if "MemTotal" not in values:
            raise Unanswered("/proc/meminfo has no MemTotal")
        return values


@dataclass(frozen=True)
class Disk:
    """The file system below a path. Sizes in bytes."""

    filesystem: str
    total: int
    available: int
    mounted_on: str


@dataclass(frozen=True)
class DiskFree(Query[Disk]):
    """Space below a path.

    Filesystem     1024-blocks    Used Available Capacity Mounted on
    tmpfs             65905504       0  65905504       0% /dev/shm
    """

    name: ClassVar[str] = "disk-free"
    purpose: ClassVar[str] = "know the space left for models, caches and shared memory"

    path: str

    def argv(self) -> tuple[str, ...]:
        return ("df", "-P", "-k", "--", self.path)

    def parse(self, text: str) -> Disk:
        words = text.splitlines()[-1].split(None, 5) if text.strip() else []
        if len(words) != 6 or not (words[1].isdecimal() and words[3].isdecimal()):
            raise Unanswered(f"df says nothing of {self.path}")
        return Disk(words[0], int(words[1]) * 1024, int(words[3]) * 1024, words[5])


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket; `process` and `pid` are known of one's own processes, or as root."""

    address: str
    port: int
    process: str = ""
    pid: int | None = None


@dataclass(frozen=True)
class ListeningPorts(Query[tuple[Listener, ...]]):
    """Listening TCP sockets.

    LISTEN 0      128        127.0.1.77:22        0.0.0.0:*    users:(("sshd",pid=36,fd=3))
    """

    name: ClassVar[str] = "listening-ports"
    purpose: ClassVar[str] = "see what listens where, and who holds a port"
    limit: ClassVar[int] = MEBI

    def argv(self) -> tuple[str, ...]:
        return ("ss", "-Hltnp")

    def parse(self, text: str) -> tuple[Listener, ...]:
        listeners = []
        for line in text.splitlines():
            words = line.split(None, 5)
            if len(words) < 5 or words[0] != "LISTEN":
                continue
            address, _, port = words[3].rpartition(":")
            owner = _USERS.search(words[5]) if len(words) > 5 else None
            if port.isdecimal():
                listeners.append(
                    Listener(
                        address.strip("[]"),
                        int(port),
                        owner[1] if owner else "",
                        int(owner[2]) if owner else None,
                    )
                )
        return tuple(listeners)


@dataclass(frozen=True)
class OsRelease(Query[Mapping[str, str]]):
    """/etc/os-release: `ID`, `VERSION_ID`, `PRETTY_NAME`, ..."""

    name: ClassVar[str] = "os-release"
    purpose: ClassVar[str] = "know the distribution"

    def argv(self) -> tuple[str, ...]:
        return ("cat", "/etc/os-release")

    def parse(self, text: str) -> Mapping[str, str]:
        values = {}
        for line in text.splitlines():
            name, equals, value = line.partition("=")
            if equals and name.replace("_", "").isalnum():
                try:
                    values[name] = "".join(shlex.split(value))
                except ValueError:
                    values[name] = value
        return values


@dataclass(frozen=True)
class HostName(Query[str]):
    """The machine's own name."""

    name: ClassVar[str] = "host-name"
    purpose: ClassVar[str] = "know which name to replace in a captured case"

    def argv(self) -> tuple[str, ...]:
        return ("uname", "-n")

    def parse(self, text: str) -> str:
        return text.strip()


def _mebibytes(text: str | None) -> int | None:
    number, _, unit = (text or "").strip().partition(" ")
    return int(number) if number.isdecimal() and unit == "MiB" else None
