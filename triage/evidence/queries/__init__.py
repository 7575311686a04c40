"""The catalogue: every question that is asked of a host, and the only place where its command is spelled.

One module a topic; each shows the real output it parses. All commands only read.
"""

from __future__ import annotations

from typing import Any

from triage.evidence.model import Query
from triage.evidence.queries.access import JournalAccess, PythonVersion, SudoRights
from triage.evidence.queries.containers import (
    Container,
    ContainerDetails,
    ContainerLog,
    Containers,
    PodmanStorage,
    ReadContainerFile,
)
from triage.evidence.queries.files import DirectoryEntry, ListDirectory, Place, Places, ReadFile, TailFile
from triage.evidence.queries.gpus import Gpu, GpuInventory, Gpus, GpuTopology, RocmInventory, Topology
from triage.evidence.queries.inside import TreeInside
from triage.evidence.queries.journal import Journal, KernelLog, Run, UnitRuns
from triage.evidence.queries.kubernetes import ClusterContainers, NodeContainers, PodLog, ReadPodFile
from triage.evidence.queries.machine import (
    Disk,
    DiskFree,
    HostName,
    Listener,
    ListeningPorts,
    MemoryInfo,
    OsRelease,
)
from triage.evidence.queries.process import (
    Belonging,
    Process,
    ProcessArguments,
    ProcessDirectory,
    ProcessEnvironment,
    Processes,
    ProcessGroup,
    ProcessOutput,
    ProgramPath,
    WhoAmI,
)
from triage.evidence.queries.python import Interpreter, PythonTree
from triage.evidence.queries.systemd import Command, ServiceUnits, Unit, UnitCommand, UnitProperties
from triage.evidence.queries.userunits import (
    UserJournal,
    UserJournalWindows,
    UserServiceUnits,
    UserUnitCommand,
    UserUnitProperties,
    UserUnitRuns,
)
from triage.evidence.queries.windows import JournalWindows

# One of each, with placeholders where a real one has names.
CATALOGUE: tuple[Query[Any], ...] = (
    ServiceUnits(),
    UnitProperties("UNIT.service"),
    UnitCommand("UNIT.service"),
    UnitRuns("UNIT.service"),
    JournalWindows("UNIT.service", "RUN"),
    Journal("UNIT.service", "RUN"),
    UserServiceUnits(),
    UserUnitProperties("UNIT.service"),
    UserUnitCommand("UNIT.service"),
    UserUnitRuns("UNIT.service"),
    UserJournalWindows("UNIT.service", "RUN"),
    UserJournal("UNIT.service", "RUN"),
    KernelLog(0, 0),
    Processes(),
    WhoAmI(),
    SudoRights(),
    JournalAccess(),
    PythonVersion(),
    ProcessArguments(0),
    ProcessEnvironment(0),
    ProcessDirectory(0),
    ProcessGroup(0),
    ProcessOutput(0),
    ProgramPath("python", "PATH"),
    PythonTree("PYTHON"),
    ReadFile("FILE"),
    TailFile("FILE"),
    ListDirectory("/DIRECTORY"),
    PodmanStorage(),
    Containers("docker"),
    ContainerDetails("docker", ("CONTAINER",)),
    ContainerLog("docker", "CONTAINER"),
    ReadContainerFile("docker", "CONTAINER", "FILE"),
    TreeInside("docker", "CONTAINER", "PYTHON"),
    NodeContainers(("CONTAINER",)),
    ClusterContainers(),
    PodLog("kubectl", "NAMESPACE/POD/CONTAINER", previous=True),
    ReadPodFile("kubectl", "NAMESPACE/POD/CONTAINER", "FILE"),
    Places(("/DIRECTORY",)),
    GpuInventory(),
    GpuTopology(),
    RocmInventory(),
    MemoryInfo(),
    DiskFree("/DIRECTORY"),
    ListeningPorts(),
    OsRelease(),
    HostName(),
)

__all__ = [
    "CATALOGUE",
    "Belonging",
    "ClusterContainers",
    "Command",
    "Container",
    "ContainerDetails",
    "ContainerLog",
    "Containers",
    "DirectoryEntry",
    "Disk",
    "DiskFree",
    "Gpu",
    "GpuInventory",
    "GpuTopology",
    "Gpus",
    "HostName",
    "Interpreter",
    "Journal",
    "JournalAccess",
    "JournalWindows",
    "KernelLog",
    "ListDirectory",
    "Listener",
    "ListeningPorts",
    "MemoryInfo",
    "NodeContainers",
    "OsRelease",
    "Place",
    "Places",
    "PodLog",
    "PodmanStorage",
    "Process",
    "ProcessArguments",
    "ProcessDirectory",
    "ProcessEnvironment",
    "ProcessGroup",
    "ProcessOutput",
    "Processes",
    "ProgramPath",
    "PythonTree",
    "PythonVersion",
    "ReadContainerFile",
    "ReadFile",
    "ReadPodFile",
    "RocmInventory",
    "Run",
    "ServiceUnits",
    "SudoRights",
    "TailFile",
    "Topology",
    "TreeInside",
    "Unit",
    "UnitCommand",
    "UnitProperties",
    "UnitRuns",
    "UserJournal",
    "UserJournalWindows",
    "UserServiceUnits",
    "UserUnitCommand",
    "UserUnitProperties",
    "UserUnitRuns",
    "WhoAmI",
]
