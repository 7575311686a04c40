"""Turns evidence into diagnoses, the same way for a live host, a case and a log."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from triage.common.errors import UsageError
from triage.evidence.discovery.containers import container_of
from triage.evidence.discovery.deployments import discover
from triage.evidence.discovery.from_tracebacks import deployment_from_log, with_traceback_paths
from triage.evidence.discovery.pods import where_it_runs
from triage.evidence.discovery.run_layout import as_it_ran
from triage.evidence.log_sources import KERNEL, NO_TIME, first_asked, log_sources
from triage.evidence.model import Deployment, Evidence, Origin
from triage.evidence.redaction.redactor import Redactor, redact_values
from triage.evidence.truncation import NotingCuts
from triage.logs import told_by, was_stopped
from triage.logs.model import Incident, LogSource
from triage.logs.reading.content import beginning
from triage.patching.evidence_tree import EvidenceTree
from triage.rules.diagnosis import Diagnosis, IncidentVerdict
from triage.workflows.unit_record import incident_of, restarts_of, skip_of

if TYPE_CHECKING:
    from triage.explain.model import Explained
    from triage.logs.second_look import SecondLook
    from triage.patching.schema import Patch
    from triage.rules.families.place import PlacedFault
    from triage.rules.nearest import Nearest
    from triage.rules.schema import Rule
    from triage.workflows.unit_record import Restarts


RunOutcome = Literal["incident", "nothing-failed", "not-recognised"]

# Rare in text, unlike the other controls, which steer terminals, and NUL, of which truncated logs are full.
_CONTROLS = re.compile(rb"[\x01-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_SAMPLE = 1 << 16  # bytes


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """What is known beforehand: rules, and the patches that they name."""

    rules: tuple[Rule, ...]
    patches: tuple[Patch, ...]


@dataclasses.dataclass(frozen=True)
class DiagnosedIncident:
    """One incident, what the rules say of it, and the verdict.

    Where no rule stands, `nearest` has those that fit in part, `families` the kinds of fault that it may be,
    best first, and `explained` what the engine's source says of it.
    """

    incident: Incident
    diagnoses: tuple[Diagnosis, ...]
    verdict: IncidentVerdict
    nearest: tuple[Nearest, ...] = ()
    families: tuple[PlacedFault, ...] = ()
    explained: Explained | None = None


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of `triage diagnose`; `others` are deployments on the host that were not looked at.

    `deployment` has the layout and the model of the last run that failed.
    """

    origin: Origin
    deployment: Deployment
    incidents: tuple[DiagnosedIncident, ...]
    others: tuple[Deployment, ...] = ()
    restarts: Restarts | None = None
    notes: tuple[str, ...] = ()  # what could not be read, and what was cut
    health: tuple[str, ...] = ()  # without an incident: in words, what shows that nothing failed
    look: SecondLook | None = None  # without an incident or health: the lines that come nearest to a failure

    @property
    def outcome(self) -> RunOutcome:
        """Whether something failed, whether it is shown that nothing did, or neither."""
        if self.incidents:
            return "incident"
        return "nothing-failed" if self.health else "not-recognised"


def load_knowledge(rules: Iterable[Path] = (), patches: Iterable[Path] = ()) -> Knowledge:
    """Shipped rules and patches, and those of further directories. Raises UsageError for a broken file."""
    from triage.patching.load import load_patches
    from triage.rules.load import load_rules

    return Knowledge(load_rules(rules), load_patches(patches))


def diagnose(
    evidence: Evidence,
    knowledge: Knowledge,
    unit: str = "",
    *logs: LogSource,
    source: Path | None = None,
) -> Report:
    """Find the deployment, read its last run, and explain it.

    With `logs` the records come from there and everything else from the evidence. `source` is a directory
    with the engine's source, to be read instead of the host's where no rule stands. Raises TriageError when
    there is no deployment, or its log cannot be read.
    """
    from triage.rules import engine
    from triage.rules.families.place import by_family, families_of
    from triage.rules.nearest import nearest

    evidence = cuts = NotingCuts(evidence)
    with cuts.in_errors():
        if logs:
            found = discover(evidence, unit) if unit else ()
            deployment, others = (found[0] if found else Deployment(name=logs[0].name)), []
            sources = logs
        else:
            deployment, *others = discover(evidence, unit, first_asked)
            evidence = where_it_runs(evidence, deployment)
            sources = log_sources(evidence, deployment)
    unread = {source.name: source.missing for source in sources if source.missing}
    told = told_by([source for source in sources if not source.missing])
    incidents = told.incidents
    if logs:  # what comes as evidence was redacted where it entered
        redactor = Redactor()
        incidents = tuple(redact_values(incident, redactor) for incident in incidents)
    restarts = None if logs else restarts_of(evidence, deployment)
    if not incidents:
        require_text(logs)
    if not incidents and not logs:
        recorded = incident_of(deployment, restarts)
        incidents = (recorded,) if recorded and not was_stopped(sources) else ()
    health = () if incidents else (*told.health, *_managed(deployment))
    look = None
    if not incidents and not health:
        look = _looked_again(sources, redacted=not logs)
        incidents = (look.incident,) if look.incident else ()
    facts = incidents[-1].facts if incidents else {}
    if skip := None if logs else skip_of(deployment):
        incidents = (*incidents, skip)
    if logs and incidents and not deployment.engine:
        deployment = deployment_from_log(evidence, logs[0].name, incidents[-1].facts, frame_files(incidents))
    deployment = with_traceback_paths(deployment, frame_files(incidents))
    tree = EvidenceTree(evidence, deployment.package_root, container_of(deployment))
    patches = {patch.id: patch for patch in knowledge.patches}
    findings = []
    unasked = {KERNEL: NO_TIME} if logs else {}
    for incident in incidents:
        diagnoses = engine.diagnose(
            incident, deployment, evidence, tree, knowledge.rules, patches, {**unasked, **unread}
        )
        near: tuple[Nearest, ...] = ()
        placed: tuple[PlacedFault, ...] = ()
        reason: Explained | None = None
        verdict = engine.verdict(incident, diagnoses)
        if verdict.basis == "none":
            near = nearest(incident, knowledge.rules, {item.rule for item in diagnoses})
            placed = families_of(incident)
            verdict = by_family(placed) or verdict
            reason = _explained(incident, deployment, evidence, tree, source, sources)
        findings.append(DiagnosedIncident(incident, diagnoses, verdict, near, placed, reason))
    notes = [f"the {name} could not be read: {why}" for name, why in unread.items()]
    notes += [f"{log.name} was cut by its limit in {log.partial}" for log in logs if log.partial]
    notes += cuts.notes
    notes += [note for source in sources for note in source.notes]
    notes += [_lost(unit, count) for unit, count in told.lost.items()]
    deployment = as_it_ran(deployment, facts)
    return Report(
        evidence.origin,
        deployment,
        tuple(findings),
        tuple(others),
        restarts,
        tuple(notes),
        health,
        None if findings else look,
    )


def _explained(
    incident: Incident,
    deployment: Deployment,
    evidence: Evidence,
    tree: EvidenceTree,
    source: Path | None,
    logs: Iterable[LogSource],
) -> Explained | None:
    from triage.workflows.explaining import explained

    return explained(incident, deployment, evidence, tree, source, logs)


def _managed(deployment: Deployment) -> tuple[str, ...]:
    """What the manager of a deployment on a host says of it, where that is no failure."""
    if not deployment.state or deployment.state == "failed":
        return ()
    return (f"{deployment.manager} says that it is {deployment.state}",)


def _looked_again(sources: Iterable[LogSource], redacted: bool) -> SecondLook:
    from triage.logs.second_look import second_look

    look = second_look([source for source in sources if not source.missing])
    return look if redacted else redact_values(look, Redactor())


def _lost(unit: str, count: int) -> str:
    """What a hole in a journal means, and how the next one is prevented."""
    return (
        f"journald did not keep {count} messages of {unit}, which came faster than its limit: what failed "
        f"first may be among them; to keep all: systemctl edit {unit}, there LogRateLimitBurst=10000000 "
        "under [Service] (before systemd 240 RateLimitIntervalSec=0 in journald.conf)"
    )


def frame_files(incidents: Iterable[Incident]) -> tuple[str, ...]:
    """Every file that the tracebacks of the incidents name, once, in order."""
    files = {
        frame.file: None for incident in incidents for fault in incident.faults for frame in fault.frames
    }
    return tuple(files)


def require_text(logs: Iterable[LogSource]) -> None:
    """What is no text holds no fault either, and that must not be taken for health. Raises UsageError."""
    for log in logs:
        sample = beginning(log.data, _SAMPLE).replace(b"\0", b"")
        if 20 * len(_CONTROLS.findall(sample)) >= len(sample):
            raise UsageError("reading the log", log.name, "it is binary, not text", f"file {log.name}")
