"""Probes of the host, its GPUs and the model: what passes, fails, only speaks against, or is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.rules.test_probes import LOG, OOM, UNREAD, XID, ask
from tests.rules.world import (
    KIMI,
    STORY,
    STORY_FAULT,
    STORY_INCIDENT,
    Answers,
    context,
    fault,
    incident,
    of_size,
)
from triage.evidence.catalogue import (
    ContainerDetails,
    DiskFree,
    GpuInventory,
    ListeningPorts,
    MemoryInfo,
    OsRelease,
    ReadFile,
    UnitProperties,
)
from triage.evidence.model import Deployment, Query
from triage.rules.context import Context

WX = "MemoryDenyWriteExecute"
UNIT = (
    "Id=kimi.service\nLimitNOFILE=1024\nLimitMEMLOCK=8388608\nLimitNPROC=infinity\n"
    "MemoryDenyWriteExecute=yes\n"
)
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max processes             95898                95898                processes
Max open files            1024                 524288               files
Max locked memory         unlimited            unlimited            bytes
"""
SHM = "Filesystem 1024-blocks Used Available Capacity Mounted on\nshm 65536 65536 0 100% /dev/shm\n"
MEMINFO = "MemTotal:       24683652 kB\nMemAvailable:   22914708 kB\n"
SS = 'LISTEN 0 128 127.0.0.1:30000 0.0.0.0:* users:(("python3",pid=4711,fd=3))\nLISTEN 0 9 *:22 *:*\n'


class Host(Answers):
    """Evidence that holds the raw answers of some queries."""

    def __init__(self, *answers: tuple[Query[Any], str]) -> None:
        super().__init__()
        self._known.update({query.key: text for query, text in answers})


def smi(*names: str, driver: str = "570.86.15") -> tuple[Query[Any], str]:
    gpus = "".join(f"<gpu><product_name>{name}</product_name></gpu>" for name in names)
    return GpuInventory(), f"<log><driver_version>{driver}</driver_version>{gpus}</log>"


def at(*answers: tuple[Query[Any], str], message: str = "", **changes: Any) -> Context:
    found = {"fault": fault(message=message), **changes}
    return context(evidence=Host(*answers), **found)


UNIT_ANSWER = (UnitProperties("kimi.service"), UNIT)
RUNNING = replace(STORY, main_pid=75)


@pytest.mark.parametrize(
    ("answers", "deployment", "keys", "result", "says"),
    [
        ([UNIT_ANSWER], STORY, {"resource": "nofile", "below": 65_536}, "pass", "of the unit sets 1,024"),
        ([UNIT_ANSWER], STORY, {"resource": "nofile", "below": 1024}, "against", "sets 1,024"),
        ([UNIT_ANSWER], STORY, {"resource": "nproc", "below": 9}, "against", "sets no limit"),
        (
            [UNIT_ANSWER, (ReadFile("/proc/75/limits"), LIMITS)],
            RUNNING, {"resource": "nofile", "below": 65_536}, "against", "process 75 sets 524,288",
        ),
        (
            [UNIT_ANSWER, (ReadFile("/proc/75/limits"), LIMITS)],
            RUNNING, {"resource": "memlock", "below": 9}, "against", "process 75 sets no limit",
        ),
        ([UNIT_ANSWER], RUNNING, {"resource": "memlock", "below": 1 << 30}, "pass", "sets 8,388,608"),
        ([], STORY, {"resource": "nofile", "below": 9}, "missing", "it is not here"),
        ([], Deployment("x"), {"resource": "nofile", "below": 9}, "missing", "no unit of systemd is known"),
        ([(UnitProperties("kimi.service"), "Id=kimi.service\n")], STORY, {"resource": "nofile", "below": 9},
         "missing", "does not tell its limit"),
    ],
)  # fmt: skip
def test_limits(
    answers: list[Any], deployment: Deployment, keys: dict[str, Any], result: str, says: str
) -> None:
    held(at(*answers, deployment=deployment), "limit", keys, result, says)


def held(of: Context, check: str, keys: dict[str, Any], result: str, says: str) -> None:
    """`against`: missing, and what is known speaks against it."""
    found = ask(check, of, **keys)
    assert (found.result, found.against) == (
        "missing" if result == "against" else result,
        result == "against",
    )
    assert says in found.detail
    assert bool(found.command) == (found.result == "missing")


SHM_ANSWER = [(DiskFree("/dev/shm"), SHM)]
MEMORY = [(MemoryInfo(), MEMINFO)]
PORTS = [(ListeningPorts(), SS)]
NEEDED = {"named": r"GLIBC_([\d.]+)"}
FOUR, EIGHT = [smi(*["NVIDIA H200"] * 4)], [smi(*["NVIDIA H200"] * 8)]


def ubuntu(version: str) -> list[tuple[Query[Any], str]]:
    return [(OsRelease(), f'ID=ubuntu\nVERSION_ID="{version}"')]


@pytest.mark.parametrize(
    ("check", "answers", "keys", "result", "says"),
    [
        ("space", SHM_ANSWER, {"path": "/dev/shm", "below": "8 GiB"}, "pass", "has 0.06 GiB"),
        ("space", SHM_ANSWER, {"path": "/dev/shm", "below": "32MiB"}, "against", "has 0.06 GiB"),
        (
            *("space", SHM_ANSWER, {"path": "/dev/shm", "of": "available", "below": "1 GiB"}),
            *("pass", "0.00 GiB left"),
        ),
        ("space", [(DiskFree(KIMI), SHM)], {"path": "MODEL_PATH", "below": "1TiB"}, "pass", KIMI),
        ("space", [], {"path": "/dev/shm", "below": "8 GiB"}, "missing", "it is not here"),
        ("memory", MEMORY, {"of": "MemTotal", "below": "64 GiB"}, "pass", "is 23.54 GiB"),
        ("memory", MEMORY, {"of": "MemTotal", "below": "8 GiB"}, "against", "is 23.54 GiB"),
        ("memory", MEMORY, {"of": "SwapTotal", "below": "8 GiB"}, "missing", "no SwapTotal"),
        ("unit-property", [UNIT_ANSWER], {"property": WX, "matches": "^yes$"}, "pass", "=yes"),
        ("unit-property", [UNIT_ANSWER], {"property": WX, "matches": "^no$"}, "against", "=yes"),
        ("unit-property", [UNIT_ANSWER], {"property": "TasksMax", "matches": "."}, "missing", "TasksMax"),
        ("port-listens", PORTS, {}, "missing", "not known which port"),
        ("port-listens", PORTS, {"named": r"port (\d+)"}, "pass", "held by python3 (pid 4711)"),
        ("glibc-older-than", ubuntu("20.04"), NEEDED, "pass", "has 2.31, 2.38 is needed"),
        ("glibc-older-than", ubuntu("24.04"), NEEDED, "against", "has 2.39, 2.38 is needed"),
        ("glibc-older-than", ubuntu("99"), NEEDED, "missing", "of ubuntu is not known"),
        ("gpu-capability", [smi("NVIDIA H200", "Tesla T4")], {"below": "8.0"}, "pass", "Tesla T4 has"),
        ("gpu-capability", [smi("NVIDIA H200")], {"below": "8.9"}, "fail", "compute capability 9.0"),
        ("gpu-capability", [smi("NVIDIA X9")], {"below": "8.9"}, "missing", "NVIDIA X9 is not known"),
        ("gpu-capability", [smi()], {"below": "8.9"}, "missing", "names no GPU"),
        ("fewer-gpus-than-ranks", FOUR, {}, "pass", "8 ranks, 4 GPUs"),
        ("fewer-gpus-than-ranks", EIGHT, {}, "against", "8 ranks, 8 GPUs"),
    ],
)
def test_what_is_read(check: str, answers: list[Any], keys: dict[str, Any], result: str, says: str) -> None:
    message = "version `GLIBC_2.38' not found; port 30000"
    held(at(*answers, message=message), check, keys, result, says)


@pytest.mark.parametrize(
    ("ipc", "keys", "result", "says"),
    [
        ("shareable", {"below": "1 GiB"}, "pass", "of the container has 0.06 GiB"),
        ("private", {"below": "32 MiB"}, "against", "of the container has 0.06 GiB"),
        ("host", {"below": "1 GiB"}, "missing", "not its own"),
        ("private", {"below": "1 GiB", "of": "available"}, "missing", "is not asked for"),
        ("private", {"below": "1 GiB", "path": "MODEL_PATH"}, "missing", "is not asked for"),
    ],
)
def test_a_containers_shared_memory_is_its_own(
    ipc: str, keys: dict[str, Any], result: str, says: str
) -> None:
    """docker gives 64 MiB where nobody says more, whatever the host has."""
    told = {"Id": "1" * 64, "State": {}, "ShmSize": 64 << 20, "IpcMode": ipc}
    details = (ContainerDetails("docker", ("1" * 64,)), json.dumps(told))
    service = replace(STORY, unit="", manager="docker", container="1" * 64)
    host = (DiskFree("/dev/shm"), SHM)
    held(at(details, host, deployment=service), "space", {"path": "/dev/shm", **keys}, result, says)


def test_a_port_that_nobody_or_the_service_itself_holds_tells_nothing() -> None:
    own = replace(STORY, port=30000, main_pid=4711)
    held(
        at((ListeningPorts(), SS), deployment=own),
        "port-listens",
        {},
        "missing",
        "the service itself listens",
    )
    free = replace(STORY, port=8000)
    held(
        at((ListeningPorts(), SS), deployment=free),
        "port-listens",
        {},
        "missing",
        "nothing listens on port 8000",
    )


@pytest.mark.parametrize(
    ("driver", "versions", "result", "says"),
    [
        ("525.60.13", {"torch": "2.11.0+cu130"}, "pass", "CUDA 13 needs 580.65.06"),
        ("580.65.06", {"torch": "2.11.0+cu130"}, "against", "CUDA 13 needs 580.65.06"),
        ("580.65.06", {"torch": "2.11.0"}, "missing", "is not known"),
        ("", {"torch": "2.11.0+cu130"}, "missing", "is not known"),
    ],
)
def test_drivers(driver: str, versions: dict[str, str], result: str, says: str) -> None:
    of = at(smi("NVIDIA H200", driver=driver), deployment=replace(STORY, versions=versions))
    held(of, "driver-older-than-cuda", {}, result, says)


@pytest.mark.parametrize(("visible", "result"), [("0,1", "pass"), ("", "pass"), ("-1", "pass")])
def test_gpus_that_the_service_may_see(visible: str, result: str) -> None:
    of = at(*EIGHT, deployment=replace(STORY, environment={"CUDA_VISIBLE_DEVICES": visible}))
    held(of, "fewer-gpus-than-ranks", {}, result, f"CUDA_VISIBLE_DEVICES={visible}")


def test_ranks_over_several_hosts_need_not_have_their_gpus_here() -> None:
    several = replace(STORY_INCIDENT, facts={**STORY_INCIDENT.facts, "nnodes": "2"})
    of = at(smi("NVIDIA H200"), incident=several)
    held(of, "fewer-gpus-than-ranks", {}, "missing", "8 ranks over 2 hosts")


@pytest.mark.parametrize(
    ("environment", "matches", "result", "says"),
    [
        ({"NCCL_P2P_DISABLE": "1"}, "^1$", "pass", "NCCL_P2P_DISABLE=1"),
        ({"NCCL_P2P_DISABLE": "0"}, "^1$", "against", "NCCL_P2P_DISABLE=0"),
        ({}, "^$", "pass", "NCCL_P2P_DISABLE is not set"),
        ({}, "^1$", "against", "NCCL_P2P_DISABLE is not set"),
    ],
)
def test_variables(environment: dict[str, str], matches: str, result: str, says: str) -> None:
    of = context(deployment=replace(STORY, environment=environment))
    held(of, "environment", {"name": "NCCL_P2P_DISABLE", "matches": matches}, result, says)


def test_an_environment_that_is_not_known() -> None:
    of = context(deployment=Deployment("x"))
    held(
        of,
        "environment",
        {"name": "A", "matches": "^$"},
        "missing",
        "the environment of the service is not known",
    )


@pytest.mark.parametrize(
    ("versions", "result", "says"),
    [
        ({"numpy": "2.1.0"}, "pass", "numpy is 2.1.0"),
        ({"numpy": "1.26.4"}, "against", "numpy is 1.26.4"),
        ({"numpy": "local"}, "missing", "local is no release"),
        ({}, "missing", "the release of numpy is not known"),
    ],
)
def test_packages(versions: dict[str, str], result: str, says: str) -> None:
    of = context(deployment=replace(STORY, versions=versions))
    held(of, "package-version", {"distribution": "numpy", "version": ">=2, <3"}, result, says)


@pytest.mark.parametrize(
    ("keys", "result", "says"),
    [
        ({"below": "pp"}, "pass", "num_hidden_layers is 7, below pp = 8"),
        ({"below": 7}, "fail", "num_hidden_layers is 7, not below 7"),
        ({"at_least": 7}, "pass", "at least 7"),
        ({"multiple_of": "pp"}, "fail", "not a multiple of pp = 8"),
        ({"not_multiple_of": "pp"}, "pass", "no multiple of pp = 8"),
        ({"not_multiple_of": 7}, "fail", "not no multiple of 7"),
    ],
)
def test_numbers_of_the_model(keys: dict[str, Any], result: str, says: str) -> None:
    files = Answers({f"{KIMI}/config.json": json.dumps({"num_hidden_layers": 7})})
    of = context(evidence=files, **of_size(pp=8))
    held(of, "config-number", {"key": "num_hidden_layers", **keys}, result, says)
    held(
        context(evidence=Answers()),
        "config-number",
        {"key": "num_hidden_layers", **keys},
        "missing",
        "not here",
    )


@pytest.mark.parametrize(
    ("changes", "result", "says"),
    [
        ({"incident": incident(STORY_FAULT, XID)}, "fail", "fallen off the bus"),
        ({"incident": incident(STORY_FAULT, OOM)}, "pass", "no such line"),
        ({"incident": incident(STORY_FAULT, XID), "evidence": LOG}, "fail", "fallen off the bus"),
        ({"evidence": LOG}, "missing", "only a log was given"),
        ({"unread": UNREAD}, "missing", "not permitted"),
    ],
)
def test_a_kernel_that_is_silent(changes: dict[str, Any], result: str, says: str) -> None:
    held(context(**changes), "kernel-silent", {"pattern": r"Xid .*\b79\b"}, result, says)


@pytest.mark.parametrize(
    ("others", "absent", "result", "says"),
    [
        ([fault("child-failed", "Received sigquit")], False, "pass", "child-failed: Received sigquit"),
        ([fault("child-failed", "Received sigquit")], True, "fail", "child-failed: Received sigquit"),
        ([fault("KeyError", "x", header="Received sigquit")], False, "pass", "KeyError: x"),
        ([], False, "fail", "no other fault"),
        ([], True, "pass", "no other fault"),
    ],
)
def test_other_faults_of_the_log(others: list[Any], absent: bool, result: str, says: str) -> None:
    first = replace(STORY_FAULT, position=replace(STORY_FAULT.position, line=1))
    of = context(incident=incident(first, *others), fault=first, evidence=LOG)
    held(of, "log-mentions", {"pattern": "sigquit", "absent": absent}, result, says)
    own = context(incident=incident(first), fault=first)
    held(own, "log-mentions", {"pattern": "list index"}, "fail", "no other fault")
