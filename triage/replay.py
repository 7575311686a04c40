"""Captured crashes diagnosed again: the CI job that keeps every diagnosis.

A case is a directory with an `expected.yaml` and either a captured bundle (`triage capture`) or a log
file named `log`, `log.gz`, `log.xz` or `log.*`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from triage import pipeline
from triage.errors import TriageError, UnreachableError
from triage.logs.model import Fault
from triage.yamlfile import load_model

EXPECTED = "expected.yaml"


class Expected(BaseModel):
    """What a case must give. `category: none` means that nothing is to be found; None is not compared."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: str | None = None
    also: tuple[str, ...] = ()  # other categories that are as right
    certainty: str | None = None
    rule: str | None = None
    initiator: str | None = None  # stands in the initiator's `Type: message`
    initiator_line: int | None = None
    ranks: tuple[str, ...] | None = None
    silent_ranks: tuple[str, ...] | None = None
    composed: bool = False  # written by hand after the real formatters, not captured
    note: str = ""


@dataclass(frozen=True)
class Replayed:
    """One case diagnosed again. `differences` is empty when it gave what was expected."""

    name: str
    seconds: float
    differences: tuple[str, ...]


def find_cases(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Every directory at or below the paths that holds an expected.yaml, in order.

    Raises UnreachableError where there is none, so that a CI job cannot pass on an empty directory.
    """
    found: dict[Path, None] = {}
    for path in paths:
        here = sorted(file.parent for file in path.rglob(EXPECTED)) if path.is_dir() else []
        if not here:
            raise UnreachableError(
                "replaying",
                str(path),
                f"no case is there (a directory with {EXPECTED})",
                "triage capture HOST -o DIR",
            )
        found.update(dict.fromkeys(here))
    return tuple(found)


def replay(cases: Iterable[Path], knowledge: pipeline.Knowledge) -> Iterator[Replayed]:
    """Diagnose each case again. A case that cannot be read is a difference, not an end."""
    for case in cases:
        start = time.monotonic()
        try:
            expected = load_model(case / EXPECTED, Expected, "expectation")
            differences = tuple(compare(expected, diagnose_case(case, knowledge)))
        except TriageError as error:
            differences = (str(error),)
        yield Replayed(str(case), time.monotonic() - start, differences)


def diagnose_case(case: Path, knowledge: pipeline.Knowledge) -> pipeline.Report:
    """The diagnosis of a captured bundle, or of the log in the directory. Raises TriageError."""
    from triage.evidence.case import MANIFEST, read_case
    from triage.evidence.recorded import LogEvidence, RecordedEvidence
    from triage.logs.load import open_log

    if (case / MANIFEST).exists():
        recorded = read_case(case)
        return pipeline.diagnose(RecordedEvidence(recorded), knowledge, recorded.unit, recorded.log)
    logs = sorted(path for path in case.iterdir() if path.name == "log" or path.name.startswith("log."))
    if len(logs) != 1:
        raise UnreachableError(
            "reading case", str(case), f"it holds {len(logs)} files named log*", f"ls {case}"
        )
    return pipeline.diagnose(LogEvidence(logs[0].name), knowledge, "", open_log(str(logs[0])))


def compare(expected: Expected, report: pipeline.Report) -> Iterator[str]:
    """What differs, a line each. The last incident counts: it is the run that a person would ask about."""
    if expected.category == "none":
        if report.incidents:
            yield f"an incident was found: {_text(report.incidents[-1].incident.initiator)}"
        return
    if not report.incidents:
        yield "no incident was found"
        return
    found = report.incidents[-1]
    fault = found.incident.initiator
    if expected.category is not None and found.verdict.category not in (expected.category, *expected.also):
        yield f"category is {found.verdict.category}, expected {expected.category}"
    if expected.certainty is not None and found.verdict.certainty != expected.certainty:
        yield f"certainty is {found.verdict.certainty}, expected {expected.certainty}"
    if expected.rule is not None:
        rule = found.diagnoses[0].rule if found.diagnoses else "none"
        if rule != expected.rule:
            yield f"rule is {rule}, expected {expected.rule}"
    if expected.initiator is not None and expected.initiator not in _text(fault):
        yield f"initiator is {_text(fault)[:200]!r}, expected {expected.initiator!r}"
    if expected.initiator_line is not None and (
        fault is None or fault.position.line != expected.initiator_line
    ):
        line = None if fault is None else fault.position.line
        yield f"initiator is at line {line}, expected {expected.initiator_line}"
    if expected.ranks is not None:
        ranks = set() if fault is None else set(fault.ranks)
        if ranks != set(expected.ranks):
            yield f"ranks are {sorted(ranks)}, expected {sorted(expected.ranks)}"
    if expected.silent_ranks is not None and found.incident.silent_ranks != expected.silent_ranks:
        yield f"silent ranks are {found.incident.silent_ranks}, expected {expected.silent_ranks}"


def expectation(report: pipeline.Report) -> Expected:
    """What a case must give from now on, taken from a report: written beside a capture."""
    if not report.incidents:
        return Expected(category="none")
    found = report.incidents[-1]
    fault = found.incident.initiator
    return Expected(
        category=found.verdict.category,
        certainty=found.verdict.certainty,
        rule=found.diagnoses[0].rule if found.diagnoses else None,
        initiator=None if fault is None else _text(fault),
        initiator_line=None if fault is None else fault.position.line,
        ranks=None if fault is None else tuple(sorted(fault.ranks)),
        silent_ranks=found.incident.silent_ranks,
    )


def _text(fault: Fault | None) -> str:
    if fault is None:
        return "undecided"
    return f"{fault.type}: {fault.message}" if fault.message else fault.type
