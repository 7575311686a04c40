"""Captured crashes diagnosed again: the CI job that keeps every diagnosis.

A case is a directory with an `expected.yaml` and either a captured bundle (`triage capture`) or the log
files of one run; or such a directory in one file, a `.tar.zst`.
"""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from triage.common.errors import TriageError, UnreachableError, UsageError
from triage.common.files import read_plain
from triage.common.yaml_files import load_model
from triage.evidence.cases.archive import SUFFIX, is_archive, opened
from triage.evidence.discovery.deployments import discover
from triage.evidence.log_sources import log_sources
from triage.evidence.recorded import LogEvidence, RecordedEvidence
from triage.logs.model import Fault, LogSource, Role
from triage.logs.reading.load import open_log
from triage.workflows import diagnose

EXPECTED = "expected.yaml"
MAX_LOG = 16 << 20  # bytes of a log whose lines are held against a label
LABEL_CHARS = 40  # of a message, enough to know it in a label that is cut
BARE_CHARS = 12  # a shorter message stands in many lines, and needs its type beside it


class Expected(BaseModel):
    """What a case must give; what is left out is not compared.

    `category: none` means that nothing is to be found. `initiator` is the fault's `Type: message`, the log
    line that names it, or a part of either. `frame` is the culprit as `file.py:function`. `roles` maps
    lines to roles. `undecided` asks that the log leaves open who came first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    category: str | None = None
    also: tuple[str, ...] = ()  # other categories that are as right
    certainty: str | None = None
    rule: str | None = None
    initiator: str | None = None
    initiator_line: int | None = None
    source: str = ""  # how the name of the initiator's source ends
    type: str | None = None
    frame: str | None = None
    ranks: tuple[str, ...] | None = None
    silent_ranks: tuple[str, ...] | None = None
    roles: dict[int, Role] = Field(default_factory=dict)
    phase: str | None = None
    facts: dict[str, str] = Field(default_factory=dict)
    incidents: int | None = None
    count: int | None = None
    undecided: bool = False
    composed: bool = False  # written by hand after the real formatters, not captured
    note: str = ""


@dataclass(frozen=True)
class Difference:
    """One part of a diagnosis that is not what was expected."""

    part: str  # `incident`, `initiator`, `ranks`, `roles`, `category`, `rule`, `error`, ...
    text: str


@dataclass(frozen=True)
class Replayed:
    """One case diagnosed again. `differences` is empty when it gave what was expected.

    `found` is what it gave, None for a case that could not be read; `expected` is its label.
    """

    name: str
    seconds: float
    differences: tuple[Difference, ...]
    found: Expected | None = None
    expected: Expected | None = None


def find_cases(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Every directory at or below the paths that holds an expected.yaml, and every archive, in order.

    Raises UnreachableError where there is none, so that a CI job cannot pass on an empty directory.
    """
    found: dict[Path, None] = {}
    for path in paths:
        here = [path] if is_archive(path) and path.is_file() else []
        if path.is_dir():
            archives = (file for file in path.rglob(f"*{SUFFIX}") if file.is_file())
            here = sorted((*(file.parent for file in path.rglob(EXPECTED)), *archives))
        if not here:
            raise UnreachableError(
                "replaying",
                str(path),
                f"no case is there (a directory with {EXPECTED}, or a {SUFFIX})",
                "triage capture HOST -o DIR",
            )
        found.update(dict.fromkeys(here))
    return tuple(found)


def replay(cases: Iterable[Path], knowledge: diagnose.Knowledge) -> Iterator[Replayed]:
    """Diagnose each case again. A case that cannot be read is a difference, not an end."""
    for case in cases:
        start = time.monotonic()
        expected = found = None
        try:
            with opened(case) as directory:
                expected = load_model(directory / EXPECTED, Expected, "expectation")
                report = diagnose_case(directory, knowledge)
                named = _named_at(expected, directory)
            differences, found = tuple(compare(expected, report, named)), expectation(report)
        except TriageError as error:
            differences = (Difference("error", str(error)),)
        except RecursionError:
            differences = (Difference("error", "an answer of it is nested too deeply to be read"),)
        yield Replayed(str(case), time.monotonic() - start, differences, found, expected)


def diagnose_case(case: Path, knowledge: diagnose.Knowledge) -> diagnose.Report:
    """The diagnosis of a captured bundle, or of the log in the directory. Raises TriageError."""
    from triage.evidence.cases.case import MANIFEST, read_case

    if is_archive(case) or (case / MANIFEST).exists():
        recorded = read_case(case)
        given = (recorded.log,) if recorded.log else ()
        return diagnose.diagnose(RecordedEvidence(recorded), knowledge, recorded.unit, *given)
    return diagnose.diagnose(LogEvidence(case.name), knowledge, "", *_log_files(case))


def logs_of(case: Path) -> tuple[LogSource, ...]:
    """The logs that a diagnosis of the case reads. Raises TriageError."""
    from triage.evidence.cases.case import MANIFEST, read_case

    if not (is_archive(case) or (case / MANIFEST).exists()):
        return _log_files(case)
    recorded = read_case(case)
    evidence = RecordedEvidence(recorded)
    return (recorded.log,) if recorded.log else log_sources(evidence, discover(evidence, recorded.unit)[0])


def _log_files(case: Path) -> tuple[LogSource, ...]:
    if not case.is_dir():
        raise UsageError("reading case", str(case), "there is no such directory", f"ls {case.parent}")
    names = sorted(path.name for path in case.iterdir() if path.is_file() and _is_log(path.name))
    if not names:
        raise UnreachableError(
            "reading case", str(case), "there is neither a bundle nor a log in it", f"ls {case}"
        )
    return tuple(open_log(str(case / name)) for name in names)


def _is_log(name: str) -> bool:
    return name != EXPECTED and not name.startswith(".") and not name.endswith((".md", ".xml"))


def log_lines(case: Path) -> tuple[str, ...]:
    """The lines of a case that is one plain text log of at most `MAX_LOG` bytes; none of any other case."""
    from triage.evidence.cases.case import MANIFEST

    if not case.is_dir() or (case / MANIFEST).exists():
        return ()
    logs = [path for path in case.iterdir() if path.is_file() and _is_log(path.name)]
    if len(logs) != 1 or logs[0].stat().st_size > MAX_LOG:
        return ()
    return tuple(read_plain(logs[0], MAX_LOG).decode("utf-8", "replace").splitlines())


def _named_at(expected: Expected, case: Path) -> frozenset[int]:
    """The lines that hold the words of the label; none where the label gives the line."""
    if expected.initiator is None or expected.initiator_line is not None:
        return frozenset()
    return frozenset(n for n, line in enumerate(log_lines(case), 1) if expected.initiator in line)


def compare_found(expected: Expected, found: Expected, lines: Sequence[str] = ()) -> Iterator[Difference]:
    """What differs in the answer of any tool, of which no more is known than its category and initiator."""
    if (expected.category == "none") != (found.category == "none"):
        yield Difference("incident", f"is {found.category}, expected {expected.category}")
        return
    if expected.category is not None and found.category not in (expected.category, *expected.also):
        yield Difference("category", f"is {found.category}, expected {expected.category}")
    label = expected.initiator
    if label is None and expected.initiator_line is not None and expected.initiator_line <= len(lines):
        label = lines[expected.initiator_line - 1]
    if label is not None and not names_fault(label, found.initiator or "nothing"):
        yield Difference("initiator", f"is {found.initiator!r}, expected {label!r}")


def compare(expected: Expected, report: diagnose.Report, named: Container[int] = ()) -> Iterator[Difference]:
    """What differs. The last incident counts: it is the run that a person would ask about.

    `named` are the lines of the log that hold the words of the initiator's label.
    """
    if expected.category == "none":
        if report.incidents:
            yield Difference(
                "incident", f"an incident was found: {_text(report.incidents[-1].incident.initiator)}"
            )
        return
    if not report.incidents:
        yield Difference("incident", "no incident was found")
        return
    found = report.incidents[-1]
    incident, fault = found.incident, found.incident.initiator
    verdict, best = found.verdict, found.diagnoses[0].rule if found.diagnoses else "none"
    if expected.category is not None and verdict.category not in (expected.category, *expected.also):
        yield Difference("category", f"is {verdict.category}, expected {expected.category}")
    asked: list[tuple[str, object, object]] = [
        ("certainty", verdict.certainty, expected.certainty),
        ("rule", best, expected.rule),
        ("incident", len(report.incidents), expected.incidents),
        ("count", incident.count, expected.count),
        ("phase", incident.phase, expected.phase),
        ("silent ranks", set(incident.silent_ranks), _as_set(expected.silent_ranks)),
    ]
    if expected.undecided:
        asked.append(("initiator", _text(fault), "undecided"))
    elif fault is None and len(incident.candidates) == 1 and expected.initiator is not None:
        told_only = _text(incident.candidates[0])  # what a reader is shown, though it cannot be the cause
        if not names_fault(expected.initiator, told_only):
            yield Difference("initiator", f"is {told_only[:200]!r}, expected {expected.initiator!r}")
    elif fault is None:
        told = (expected.initiator, expected.initiator_line, expected.type, expected.frame, expected.ranks)
        asked.append(("initiator", "undecided", next((each for each in told if each), None)))
    else:
        asked += [
            ("initiator", fault.position.line, expected.initiator_line),
            ("initiator", fault.type, expected.type),
            ("frame", _frame(fault), expected.frame),
            ("ranks", set(fault.ranks), _as_set(expected.ranks)),
        ]
        label, line = expected.initiator, fault.position.line
        if label is not None and not names_fault(label, _text(fault)) and line not in named:
            yield Difference("initiator", f"is {_text(fault)[:200]!r}, expected {expected.initiator!r}")
        if not fault.position.source.endswith(expected.source):
            yield Difference("initiator", f"is in {fault.position.source}, expected {expected.source}")
    for part, is_, wanted in asked:
        if wanted is not None and is_ != wanted:
            yield Difference(part, f"is {_shown(is_)}, expected {_shown(wanted)}")
    roles = {(other.position.line, other.role) for other in incident.faults}
    for item in expected.roles.items():
        if item not in roles:
            yield Difference("roles", f"no {item[1]} at line {item[0]}")
    for name, value in expected.facts.items():
        if incident.facts.get(name) != value:
            yield Difference("facts", f"{name} is {incident.facts.get(name)}, expected {value}")


def expectation(report: diagnose.Report) -> Expected:
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
        undecided=fault is None,
    )


def _text(fault: Fault | None) -> str:
    if fault is None:
        return "undecided"
    return f"{fault.type}: {fault.message}" if fault.message else fault.type


def names_fault(label: str, text: str) -> bool:
    """Does a label name a fault? It can be a whole log line with its prefix, or cut at its end."""
    message = text.partition("\n")[0]
    bare = message.partition(": ")[2]
    parts = (message, bare) if len(bare) >= BARE_CHARS else (message,)
    return label in text or any(part[:LABEL_CHARS] in label for part in parts)


def _frame(fault: Fault) -> str | None:
    return None if fault.frame is None else f"{fault.frame.file.rpartition('/')[2]}:{fault.frame.function}"


def _as_set(names: tuple[str, ...] | None) -> set[str] | None:
    return None if names is None else set(names)


def _shown(value: object) -> str:
    return ", ".join(sorted(map(str, value))) or "none" if isinstance(value, set) else str(value)
