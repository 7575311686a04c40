"""A diagnosis kept as a case: what was read, redacted, and what it must give from now on."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from triage.common.files import write_atomically
from triage.evidence.cases import archive
from triage.evidence.cases.archive import SUFFIX, is_archive
from triage.evidence.catalogue import (
    DiskFree,
    GpuInventory,
    GpuTopology,
    HostName,
    ListDirectory,
    ListeningPorts,
    MemoryInfo,
    OsRelease,
    Places,
    ProcessArguments,
    ProcessEnvironment,
    Processes,
    RocmInventory,
)
from triage.evidence.discovery.containers import container_of, file_in
from triage.evidence.discovery.environment import compile_caches
from triage.evidence.discovery.managers import about_unit_of
from triage.evidence.discovery.pods import where_it_runs
from triage.logs.model import LogSource
from triage.workflows import diagnose, replay

if TYPE_CHECKING:
    from triage.evidence.cases.case import CaseEntry
    from triage.evidence.live import LiveEvidence
    from triage.evidence.model import Deployment, Query

BESIDES: tuple[Query[Any], ...] = (OsRelease(), MemoryInfo(), GpuInventory(), ListeningPorts())


@dataclass(frozen=True)
class Captured:
    """A case on disk, a directory or an archive, and how many of its questions have an answer."""

    directory: Path
    answered: int
    missing: int


@dataclass(frozen=True)
class CaseContents:
    """What is in a captured case."""

    name: str
    created: str
    prompts_kept: bool
    entries: tuple[CaseEntry, ...]


def capture(
    evidence: LiveEvidence,
    knowledge: diagnose.Knowledge,
    case: Path,
    unit: str = "",
    *logs: LogSource,
    source: bool = True,
    full: bool = False,
    replacing: bool = False,
) -> Captured:
    """Diagnose, ask what a person would want to know besides, and write both as a case.

    `full` asks for what the maintainers of an engine would ask for next. Without `source`, the engine's
    program text is left out; probes that read it will say so. What it must give from now on is taken from
    the written, redacted case. Raises TriageError: before anything is read where `case` cannot be written.
    """
    from triage.evidence.cases.case import check_place, read_case, write_case

    check_place(case, replacing)
    report = diagnose.diagnose(evidence, knowledge, unit, *logs)
    asked = where_it_runs(evidence, report.deployment)
    for query in (*BESIDES, *(_for_a_bug_report(report.deployment) if full else ())):
        asked.ask(query)
    with _room(case) as directory:
        replaces = replacing and directory == case
        log = logs[0] if logs else None
        write_case(directory, evidence, unit=unit, log=log, source=source, replacing=replaces)
        expected = replay.expectation(replay.diagnose_case(directory, knowledge))
        text = yaml.safe_dump(
            expected.model_dump(mode="json", exclude_none=True, exclude_defaults=True), sort_keys=False
        )
        write_atomically(directory / replay.EXPECTED, text.encode())
        if directory != case:
            archive.pack(directory, case)
        recorded = read_case(directory).recorded
    answered = sum(item.text is not None for item in recorded)
    return Captured(case, answered, len(recorded) - answered)


@contextlib.contextmanager
def _room(case: Path) -> Iterator[Path]:
    """Yield where the files of a case are written: itself, or a directory that becomes an archive."""
    if not is_archive(case):
        yield case
        return
    with tempfile.TemporaryDirectory(prefix="triage-case-") as room:
        yield Path(room) / (case.name.removesuffix(SUFFIX) or "case")


def _for_a_bug_report(deployment: Deployment) -> Iterator[Query[Any]]:
    yield from (HostName(), Processes(), DiskFree("/dev/shm"), GpuTopology(), RocmInventory())
    caches = tuple(compile_caches(deployment.environment).values())
    if caches and not deployment.container:
        yield Places(caches)
    if deployment.unit:
        questions = about_unit_of(deployment)
        yield from (questions.properties(deployment.unit), questions.runs(deployment.unit))
        yield questions.journal(deployment.unit, deployment.invocation)
    if deployment.main_pid:
        yield from (ProcessArguments(deployment.main_pid), ProcessEnvironment(deployment.main_pid))
    if deployment.model.startswith("/"):
        if not deployment.container:
            yield from (DiskFree(deployment.model), ListDirectory(deployment.model, deployment.user))
        yield file_in(container_of(deployment), f"{deployment.model}/config.json")
