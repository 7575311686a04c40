"""Rules applied to an incident: proposals, proof, and a verdict."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from triage.common.commands import NextCommand
from triage.engines import engine_named
from triage.evidence.model import EMPTY, Deployment, Evidence
from triage.logs.model import Fault, Incident
from triage.patching.model import SourceTree
from triage.rules import cause_search, corroboration, probes
from triage.rules.checks import PatchState, StageOwnsLayer, Stages
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult, Diagnosis, IncidentVerdict, Outcome, Remedy
from triage.rules.match import SignatureMatch, match
from triage.rules.probes import splits
from triage.rules.remedies.resolve import remedies
from triage.rules.schema import Rule
from triage.rules.specificity import specificity

if TYPE_CHECKING:
    from triage.patching.schema import Patch

_ROLES = ("cause", "consequence", "benign")
_OUTCOMES = ("confirmed", "unproven", "refuted")
_PASSED_ON = re.compile(r"NCCL [Ee]rror|nccl(System|Internal|Remote|UnhandledCuda)Error")
"""NCCL returns a number; what went wrong it says in a warning before that (NCCL_DEBUG=WARN)."""


def diagnose(
    incident: Incident,
    deployment: Deployment,
    evidence: Evidence,
    tree: SourceTree,
    rules: Iterable[Rule],
    patches: Mapping[str, Patch],
    unread: Mapping[str, str] = EMPTY,
) -> tuple[Diagnosis, ...]:
    """Every rule that fits the incident's initiator, or each candidate where that is open; best first.

    Where the initiator only passes an error of NCCL on, rules are asked of NCCL's own words for it, too.
    Fallbacks are asked where no other rule stands. `unread` names logs that could not be read, and why.
    """
    found: dict[str, tuple[SignatureMatch, Diagnosis]] = {}
    rules = tuple(rules)
    for fallback in (False, True):
        if any(_stands(item) for _, item in found.values()):
            break
        for fault in _asked(incident):
            for rule in (rule for rule in rules if rule.fallback == fallback and rule.id not in found):
                if rule.role == "benign" and incident.initiator not in (None, fault):
                    continue
                matched = match(rule, incident, fault)
                if matched is not None:
                    context = Context(
                        evidence, deployment, incident, matched.fault, matched.frames, tree, patches, unread
                    )
                    found[rule.id] = (matched, _apply(matched, context))
    return tuple(item for _, item in sorted(found.values(), key=lambda pair: _rank(*pair)))


def _asked(incident: Incident) -> tuple[Fault, ...]:
    first = incident.initiator
    if first is None:
        return incident.candidates
    if not _PASSED_ON.search(first.message):
        return (first,)
    before = takewhile(lambda fault: fault.role != "initiator", incident.faults)
    words = (fault for fault in before if fault.type == "nccl-warning")
    alike = (each for each in words if not (first.ranks and each.ranks) or first.ranks & each.ranks)
    return (first, *alike)


def verdict(incident: Incident, diagnoses: tuple[Diagnosis, ...]) -> IncidentVerdict:
    """`confirmed` needs a confirmed cause, `likely` a cause without a rival that nothing speaks against."""
    standing = [item for item in diagnoses if _stands(item) and item.role != "benign"]
    causes = [item for item in standing if item.role == "cause"]
    if not standing:
        return IncidentVerdict("unknown", "unknown", "none")
    if not causes:
        return IncidentVerdict(standing[0].category, "possible")
    best = causes[0]
    if best.outcome == "confirmed" and incident.initiator is not None:
        return IncidentVerdict(best.category, "confirmed")
    rivals = {item.category for item in causes if not item.doubtful} - {best.category}
    first = incident.initiator
    certain = not rivals and not best.doubtful and first is not None and not first.doubt
    return IncidentVerdict(best.category, "likely" if certain else "possible")


def _apply(matched: SignatureMatch, context: Context) -> Diagnosis:
    rule = matched.rule
    _foresee(rule, context)
    findings = [
        CheckResult("log", "pass", _what_matched(matched)),
        *corroboration.findings(context),
        *(probes.run(probe, context, "probe") for probe in rule.probes),
        *(probes.run(probe, context, "falsifier") for probe in rule.falsifiers),
    ]
    outcome = _outcome(rule, findings)
    findings += cause_search.findings(rule.cause_in, context)
    found = Diagnosis(
        rule=rule.id,
        category=rule.category,
        role=rule.role,
        outcome=outcome,
        title=rule.title,
        explanation=rule.explanation.strip(),
        findings=tuple(findings),
        remedies=remedies(rule.remedies, context),
        references=rule.references,
    )
    return replace(found, remedies=_in_doubt(found)) if found.doubtful else found


def _foresee(rule: Rule, context: Context) -> None:
    """What the probes are going to read, as far as it depends on no answer."""
    asking = (*rule.probes, *rule.falsifiers)
    patches = [context.patches.get(probe.patch) for probe in asking if isinstance(probe, PatchState)]
    modules = [module for patch in patches if patch for module in patch.modules]
    is_of_stages = any(isinstance(probe, (Stages, StageOwnsLayer)) for probe in asking)
    if is_of_stages:
        modules += splits.dealt_out_by(engine_named(context.engine).pipeline)
    context.foresee(modules, is_of_stages)


def _in_doubt(found: Diagnosis) -> tuple[Remedy, ...]:
    """First what would settle it; patches are shown, not applied."""
    against = next(finding for finding in found.findings if finding.against)
    settle = Remedy(
        "action", "settle", "find out first, because something speaks against it", against.command
    )
    shown = (
        replace(each, command=each.command.without("--apply"))
        if isinstance(each.command, NextCommand)
        else each
        for each in found.remedies
    )
    return (settle, *shown)


def _outcome(rule: Rule, findings: list[CheckResult]) -> Outcome:
    """A falsifier that could not be read leaves a confirmed cause confirmed; a probe does not."""
    if any(item.result == "fail" for item in findings):
        return "refuted"
    if rule.conclusive:
        vouched = all(item.result == "pass" for item in findings if item.kind == "log")
        return "confirmed" if vouched else "unproven"
    asked = [item for item in findings if item.kind == "probe"]
    proven = bool(asked) and all(item.result == "pass" for item in asked)
    return "confirmed" if proven else "unproven"


def _what_matched(matched: SignatureMatch) -> str:
    fault = matched.fault
    where = "".join(
        f", {frame.file.rpartition('/')[2]}:{frame.line} in {frame.function}"
        for frame in matched.frames.values()
    )
    ranks = f" on {', '.join(sorted(fault.ranks))}" if fault.ranks else ""
    message = f"{fault.type}: {fault.message}" if fault.message else fault.type
    return f"{message[:300]}{ranks}{where}"


def _stands(item: Diagnosis) -> bool:
    return item.outcome != "refuted"


def _rank(matched: SignatureMatch, item: Diagnosis) -> tuple[bool, int, int, bool, int, int, str]:
    """Rank a diagnosis: among equals the one for which more was shown, then the one that asks for more."""
    passed = sum(finding.result == "pass" for finding in item.findings)
    return (
        not _stands(item),
        _ROLES.index(item.role),
        _OUTCOMES.index(item.outcome),
        item.doubtful,
        -passed,
        -specificity(matched.signature),
        item.rule,
    )
