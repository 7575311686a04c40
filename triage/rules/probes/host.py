"""The host as it is now: limits, room, memory, ports, the unit, packages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from triage.evidence.catalogue import DiskFree, ListeningPorts, MemoryInfo, OsRelease, ReadFile
from triage.evidence.discovery.containers import container_of, details_of
from triage.evidence.discovery.managers import about_units_of
from triage.evidence.model import Unanswered
from triage.rules.arithmetic.versions import glibc_of, older, satisfies
from triage.rules.checks import (
    EnvironmentVariable,
    HostLibrary,
    Limit,
    Memory,
    PackageVersion,
    PortListens,
    Space,
    UnitProperty,
)
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult
from triage.rules.probes.judge import of_now

if TYPE_CHECKING:
    from triage.evidence.catalogue import Unit
    from triage.evidence.catalogue.containers import Tool

_UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_IN_PROC = {"nofile": "Max open files", "memlock": "Max locked memory", "nproc": "Max processes"}
_OF_UNIT = {"nofile": "LimitNOFILE", "memlock": "LimitMEMLOCK", "nproc": "LimitNPROC"}
_NO_LIMIT = ("infinity", "unlimited", str(2**64 - 1))


def limit(probe: Limit, context: Context) -> CheckResult:
    value, where = _limit(probe, context)
    if value in _NO_LIMIT:
        return of_now(False, f"{probe.says}: {where} sets no limit")
    if not re.fullmatch(r"[0-9]{1,20}", value):
        raise Unanswered(f"{where} does not tell its limit")
    return of_now(int(value) < probe.below, f"{probe.says}: {where} sets {int(value):,}")


def space(probe: Space, context: Context) -> CheckResult:
    path = context.ran.model if probe.path == "MODEL_PATH" else probe.path
    if not path.startswith("/"):
        raise Unanswered(f"{path or 'the model'} is no path on the host")
    container = container_of(context.deployment)
    if container:
        return _space_in(container, path, probe, context)
    disk = context.evidence.ask(DiskFree(path)).require()
    size = disk.total if probe.of == "total" else disk.available
    detail = f"{probe.says}: {path} has {_gib(size)}{' left' if probe.of == 'available' else ''}"
    return of_now(size < _bytes(probe.below), detail)


def _space_in(container: tuple[Tool, str], path: str, probe: Space, context: Context) -> CheckResult:
    """What a container was given of shared memory; of its disks nothing is asked."""
    if path != "/dev/shm" or probe.of != "total":
        raise Unanswered(f"what room there is in {path} of the container is not asked for")
    found = details_of(context.evidence, *container)
    if found is None or not found.shm_size:
        raise Unanswered("the container's /dev/shm is not its own")
    detail = f"{probe.says}: {path} of the container has {_gib(found.shm_size)}"
    return of_now(found.shm_size < _bytes(probe.below), detail)


def memory(probe: Memory, context: Context) -> CheckResult:
    value = context.evidence.ask(MemoryInfo()).require().get(probe.of)
    if value is None:
        raise Unanswered(f"/proc/meminfo has no {probe.of}")
    return of_now(value < _bytes(probe.below), f"{probe.says}: {probe.of} is {_gib(value)}")


def environment(probe: EnvironmentVariable, context: Context) -> CheckResult:
    if not context.examined or not context.deployment.manager:
        raise Unanswered("the environment of the service is not known")
    value = context.deployment.environment.get(probe.name)
    shown = f"{probe.name} is not set" if value is None else f"{probe.name}={value}"
    return of_now(re.search(probe.matches, (value or "")[:4096]) is not None, f"{probe.says}: {shown}")


def unit_property(probe: UnitProperty, context: Context) -> CheckResult:
    value = _unit(context).properties.get(probe.property)
    if value is None:
        raise Unanswered(f"systemd was not asked for {probe.property}")
    holds = re.search(probe.matches, value[:4096]) is not None
    return of_now(holds, f"{probe.says}: {probe.property}={value}")


def package_version(probe: PackageVersion, context: Context) -> CheckResult:
    version = context.deployment.versions.get(probe.distribution, "")
    if not version:
        raise Unanswered(f"the release of {probe.distribution} is not known")
    holds = satisfies(version, probe.version)
    if holds is None:
        raise Unanswered(f"{version} is no release of {probe.distribution} that can be compared")
    return of_now(holds, f"{probe.says}: {probe.distribution} is {version}")


def glibc(probe: HostLibrary, context: Context) -> CheckResult:
    needed = re.search(probe.named, context.fault.message)
    system = context.evidence.ask(OsRelease()).require()
    name, has = system.get("PRETTY_NAME") or system.get("ID", "the host"), glibc_of(system)
    is_older = older(has, needed[1]) if needed else None
    if needed is None or is_older is None:
        raise Unanswered(f"the C library of {name} is not known")
    return of_now(is_older, f"{probe.says}: {name} has {has}, {needed[1]} is needed")


def port_listens(probe: PortListens, context: Context) -> CheckResult:
    found = re.search(probe.named, context.fault.message) if probe.named else None
    port = int(found[1]) if found and re.fullmatch(r"[0-9]{1,5}", found[1]) else context.deployment.port
    if port is None:
        raise Unanswered("it is not known which port it asked for")
    listeners = context.evidence.ask(ListeningPorts()).require()
    held = [each for each in listeners if each.port == port]
    if not held:
        raise Unanswered(f"nothing listens on port {port} now")
    by = ", ".join(
        f"{each.process} (pid {each.pid})" if each.process else "a process of another user" for each in held
    )
    if any(each.pid is not None and each.pid == context.deployment.main_pid for each in held):
        raise Unanswered(f"the service itself listens on port {port} now")
    return of_now(True, f"{probe.says}: port {port} is held by {by}")


def _limit(probe: Limit, context: Context) -> tuple[str, str]:
    """The hard limit, and who sets it."""
    pid = context.deployment.main_pid
    text = context.evidence.ask(ReadFile(f"/proc/{pid}/limits")).value if pid else None
    for line in (text or "").splitlines():
        words = line.removeprefix(_IN_PROC[probe.resource]).split()
        if line.startswith(_IN_PROC[probe.resource]) and len(words) >= 2:
            return words[1], f"the running process {pid}"
    name = _OF_UNIT[probe.resource]
    return _unit(context).properties.get(name, ""), f"{name}= of the unit"


def _unit(context: Context) -> Unit:
    deployment = context.deployment
    if not deployment.unit:
        raise Unanswered("no unit of systemd is known")
    return context.evidence.ask(about_units_of(deployment.manager).properties(deployment.unit)).require()


def _bytes(size: str) -> int:
    number, unit = size[:-3].strip(), size[-3:]
    return int(number) * _UNITS[unit]


def _gib(size: int) -> str:
    return f"{size / _UNITS['GiB']:.2f} GiB"
