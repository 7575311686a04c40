"""The machine: memory, disks, ports, system."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.model import MEBI, Query, Unanswered
from triage.hosts.connection import Output

_MEMINFO = re.compile(r"(\w[\w()]*): +(\d+)( kB)?")
_SOCKETS = """
{ cat /proc/net/tcp /proc/net/tcp6; grep . /proc/[0-9]*/comm /dev/null;
ls -l /proc/[0-9]*/fd/ | grep -e "^/proc/" -e " -> socket:"; } 2>/dev/null; :
"""
_LISTENS = re.compile(
    r" *\d+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:0000 0A \S+ \S+ \S+ +\d+ +\d+ (\d+) "
)
_NAMED = re.compile(r"/proc/(\d+)/comm:(.{1,64})")
_FILES_OF = re.compile(r"/proc/(\d+)/fd/?:")
_SOCKET = re.compile(r" -> socket:\[(\d+)\]\Z")
_USERS = re.compile(r'"([^"]{1,64})",pid=(\d+)')


@dataclass(frozen=True)
class MemoryInfo(Query[Mapping[str, int]]):
    """/proc/meminfo in bytes: `MemTotal`, `MemAvailable`, `SwapFree`, `Shmem`, ..."""

    name: ClassVar[str] = "memory"
    purpose: ClassVar[str] = "know how much memory the host has left"
    absence: ClassVar[str] = "probes on memory are missing"

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
    absence: ClassVar[str] = "probes on room are missing"

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

    Without ss the kernel's own tables, with the files of processes that are sockets:

       0: 4D01007F:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 ...
    /proc/36/comm:sshd
    /proc/36/fd/:
    lrwx------ 1 root root 64 Nov 29 17:15 3 -> socket:[4711]
    """

    name: ClassVar[str] = "listening-ports"
    purpose: ClassVar[str] = "see what listens where, and who holds a port"
    absence: ClassVar[str] = "probes on ports are missing"
    limit: ClassVar[int] = 4 * MEBI

    def argv(self) -> tuple[str, ...]:
        return ("ss", "-Hltnp")

    def lesser(self) -> tuple[str, ...]:
        return ("sh", "-c", " ".join(_SOCKETS.split()))

    def decode(self, output: Output) -> str:
        text = super().decode(output)
        return text if "LISTEN" in text else "".join(_listening(text.splitlines()))

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
    absence: ClassVar[str] = "probes on the C library are missing"

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
    absence: ClassVar[str] = "only the name by which the host was reached is replaced in a case"

    def argv(self) -> tuple[str, ...]:
        return ("uname", "-n")

    def parse(self, text: str) -> str:
        return text.strip()


def _listening(lines: Iterable[str]) -> Iterator[str]:
    """What the kernel's tables say, as ss says it."""
    sockets: list[tuple[str, str]] = []
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    pid = ""
    for line in lines:
        if found := _LISTENS.match(line):
            sockets.append((f"{_address(found[1])}:{int(found[2], 16)}", found[3]))
        elif found := _NAMED.fullmatch(line):
            names[found[1]] = found[2].replace('"', "'")
        elif found := _FILES_OF.fullmatch(line):
            pid = found[1]
        elif found := _SOCKET.search(line):
            owners.setdefault(found[1], pid)
    for place, inode in sockets:
        owner = owners.get(inode, "")
        users = f'users:(("{names.get(owner) or "?"}",pid={owner},fd=0))' if owner else ""
        yield f"LISTEN 0 0 {place} *:* {users}\n"


def _address(digits: str) -> str:
    """Words of four bytes, each with its last byte first."""
    data = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    address = str(ipaddress.ip_address(data))
    return address if len(data) == 4 else f"[{address}]"
