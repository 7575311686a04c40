"""The labelled logs of `tests/corpus`: a folder a case, with its log files and `expected.yaml`."""

from __future__ import annotations

from pathlib import Path

from triage.logs.model import LogSource
from triage.workflows.replay import find_cases, logs_of

CORPUS = Path(__file__).parent.parent / "corpus"


def cases() -> tuple[Path, ...]:
    return find_cases((CORPUS,))


def sources(case: Path) -> tuple[LogSource, ...]:
    return logs_of(case)
