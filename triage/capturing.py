"""A diagnosis kept as a case: what was read, redacted, and what it must give from now on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from triage import pipeline, replay
from triage.files import write_atomically
from triage.logs.model import LogSource

if TYPE_CHECKING:
    from triage.evidence.live import LiveEvidence
    from triage.evidence.model import Query


@dataclass(frozen=True)
class Captured:
    """A case on disk, and how many of its questions have an answer."""

    directory: Path
    answered: int
    missing: int


def capture(
    evidence: LiveEvidence,
    knowledge: pipeline.Knowledge,
    directory: Path,
    unit: str = "",
    *logs: LogSource,
    source: bool = True,
) -> Captured:
    """Diagnose, ask what a person would want to know besides, and write both as a case.

    Without `source`, the engine's program text is left out; probes that read it will say so. What it must
    give from now on is taken from the written, redacted case. Raises TriageError.
    """
    from triage.evidence.case import read_case, write_case
    from triage.evidence.queries import GpuInventory, ListeningPorts, MemoryInfo, OsRelease

    pipeline.diagnose(evidence, knowledge, unit, *logs)
    besides: tuple[Query[Any], ...] = (OsRelease(), MemoryInfo(), GpuInventory(), ListeningPorts())
    for query in besides:
        evidence.ask(query)
    write_case(directory, evidence, unit=unit, log=logs[0] if logs else None, source=source)
    expected = replay.expectation(replay.diagnose_case(directory, knowledge))
    text = yaml.safe_dump(
        expected.model_dump(mode="json", exclude_none=True, exclude_defaults=True), sort_keys=False
    )
    write_atomically(directory / replay.EXPECTED, text.encode())
    recorded = read_case(directory).recorded
    answered = sum(item.text is not None for item in recorded)
    return Captured(directory, answered, len(recorded) - answered)
