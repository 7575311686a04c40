"""What the rules say of an incident."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triage.common.commands import Next

FindingKind = Literal["log", "probe", "falsifier"]
Result = Literal["pass", "fail", "missing"]
Outcome = Literal["confirmed", "refuted", "unproven"]
Certainty = Literal["confirmed", "likely", "possible", "unknown"]
Basis = Literal["rule", "family", "none"]
"""What a verdict rests on: a rule that stands, the kind of fault that it is, or nothing."""
RemedyKind = Literal["patch", "setting", "upgrade", "action"]


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source file that a probe read: (line number, text, whether it is the one meant)."""

    path: str
    lines: tuple[tuple[int, str, bool], ...]


@dataclass(frozen=True)
class EvidenceTable:
    """A computed result: column titles and rows of text."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class CheckResult:
    """One step of a diagnosis. `pass` speaks for the hypothesis, `fail` against it.

    `command` is what would get the missing item, "" when nothing is missing. `against` marks a missing item
    without which the hypothesis would be refuted: all that is known speaks against it.
    """

    kind: FindingKind
    result: Result
    detail: str
    excerpts: tuple[Excerpt, ...] = ()
    table: EvidenceTable | None = None
    command: Next = ""
    against: bool = False


@dataclass(frozen=True)
class Remedy:
    """What to do. `cost` and `proof` say what it takes and how far it was shown to work."""

    kind: RemedyKind
    id: str
    summary: str
    command: Next = ""
    cost: str = ""
    proof: str = ""
    helps: bool | None = None  # computed for this deployment; None: could not be computed


@dataclass(frozen=True)
class Diagnosis:
    """A rule applied to an incident."""

    rule: str
    category: str
    role: Literal["cause", "consequence", "benign"]
    outcome: Outcome
    title: str
    explanation: str
    findings: tuple[CheckResult, ...]
    remedies: tuple[Remedy, ...]
    references: tuple[str, ...] = ()

    @property
    def doubtful(self) -> bool:
        """Whether it is not refuted only because something is not known."""
        return self.outcome == "unproven" and any(finding.against for finding in self.findings)


@dataclass(frozen=True)
class IncidentVerdict:
    """The category of an incident's root cause, how sure that is, and what it rests on."""

    category: str
    certainty: Certainty
    basis: Basis = "rule"
