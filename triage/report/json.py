"""JSON of every command: versioned schemas with fixed names, documented in docs/json.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from triage.evidence.model import Deployment
from triage.logs.model import Fault, Frame, Incident
from triage.report import explained
from triage.rules.diagnosis import CheckResult, Diagnosis, EvidenceTable, Excerpt, Remedy
from triage.verify.model import Verification
from triage.workflows.capture import Captured, CaseContents
from triage.workflows.diagnose import DiagnosedIncident, Report
from triage.workflows.replay import Replayed
from triage.workflows.verdict_diff import Flip, parts

if TYPE_CHECKING:
    from triage.rules.families.place import PlacedFault


def dumps(value: dict[str, Any]) -> str:
    """ASCII only, so that no control or bidirectional character of a log reaches a terminal."""
    return json.dumps(value, indent=2, ensure_ascii=True)


def diagnosis(report: Report) -> dict[str, Any]:
    """`triage.diagnosis/1`."""
    return {
        "schema": "triage.diagnosis/1",
        "source": {"kind": report.origin.kind, "name": report.origin.name},
        "deployment": deployment(report.deployment),
        "outcome": report.outcome,
        "health": list(report.health),
        "suspicious": [] if report.look is None else [asdict(line) for line in report.look.suspicious],
        "incidents": [_incident(item) for item in report.incidents],
        "restarts": None if report.restarts is None else asdict(report.restarts),
        "others": [{"name": item.name, "state": item.state} for item in report.others],
        "notes": list(report.notes),
    }


def deployment(item: Deployment) -> dict[str, Any]:
    return {
        "name": item.name,
        "engine": item.engine,
        "version": item.version,
        "manager": item.manager,
        "unit": item.unit,
        "state": item.state,
        "result": item.result,
        "exit_status": item.exit_status,
        "invocation": item.invocation,
        "started": item.started,
        "pid": item.main_pid,
        "python": item.python,
        "package_root": item.package_root,
        "versions": dict(item.versions),
        "arguments": dict(item.arguments),
        "layout": {name: getattr(item.layout, name) for name in ("tp", "pp", "dp", "ep")},
        "model": item.model,
        "image": item.image,
        "node": item.node,
        "endpoint": None if item.port is None else f"{item.host}:{item.port}",
        "disagreements": list(item.disagreements),
    }


def _incident(item: DiagnosedIncident) -> dict[str, Any]:
    incident: Incident = item.incident
    return {
        "id": incident.id,
        "fingerprint": incident.fingerprint,
        "started": _time(incident.started),
        "ended": _time(incident.ended),
        "phase": incident.phase,
        "phases": [
            {"name": phase.name, "time": _time(phase.time), "ranks": list(phase.ranks)}
            for phase in incident.phases
        ],
        "count": incident.count,
        "silent_ranks": list(incident.silent_ranks),
        "initiator": None if incident.initiator is None else _fault(incident.initiator),
        "candidates": [_fault(fault) for fault in incident.candidates],
        "faults": [{"role": fault.role, **_fault(fault)} for fault in incident.faults],
        "facts": dict(incident.facts),
        "diagnoses": [_diagnosis(entry) for entry in item.diagnoses],
        "nearest": [asdict(near) for near in item.nearest],
        "explained": None if item.explained is None else explained.parts(item.explained),
        "families": [_family(placed) for placed in item.families],
        "verdict": {
            "category": item.verdict.category,
            "certainty": item.verdict.certainty,
            "basis": item.verdict.basis,
        },
    }


def _family(placed: PlacedFault) -> dict[str, Any]:
    family = placed.family
    return {
        "family": family.id,
        "category": family.category,
        "title": family.title,
        "weight": placed.weight,
        "seen": list(placed.seen),
        "look": [{"summary": each.summary, "command": each.command} for each in family.look],
    }


def _fault(fault: Fault) -> dict[str, Any]:
    position = fault.position
    return {
        "kind": fault.kind,
        "type": fault.type,
        "message": fault.message,
        "ranks": sorted(fault.ranks),
        "pid": fault.pid,
        "time": _time(fault.time),
        "frame": None if fault.frame is None else _frame(fault.frame),
        "frames": [_frame(frame) for frame in fault.frames],
        "chain": [
            {"link": cause.link, "type": cause.type, "message": cause.message} for cause in fault.chain
        ],
        "members": [{"type": member.type, "message": member.message} for member in fault.members],
        "because": list(fault.because),
        "doubt": fault.doubt,
        "count": fault.count,
        "position": {"source": position.source, "line": position.line, "cursor": position.cursor},
    }


def _frame(frame: Frame) -> dict[str, Any]:
    return {"file": frame.file, "line": frame.line, "function": frame.function, "code": frame.code}


def _diagnosis(item: Diagnosis) -> dict[str, Any]:
    return {
        "rule": item.rule,
        "category": item.category,
        "role": item.role,
        "outcome": item.outcome,
        "title": item.title,
        "explanation": item.explanation,
        "evidence": [_finding(finding) for finding in item.findings],
        "remedies": [_remedy(remedy) for remedy in item.remedies],
        "references": list(item.references),
    }


def _finding(finding: CheckResult) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "result": finding.result,
        "detail": finding.detail,
        "excerpts": [_excerpt(excerpt) for excerpt in finding.excerpts],
        "table": None if finding.table is None else _table(finding.table),
        "command": str(finding.command),
        "against": finding.against,
    }


def _excerpt(excerpt: Excerpt) -> dict[str, Any]:
    lines = [{"line": number, "text": text, "meant": meant} for number, text, meant in excerpt.lines]
    return {"path": excerpt.path, "lines": lines}


def _table(table: EvidenceTable) -> dict[str, Any]:
    return {"columns": list(table.columns), "rows": [list(row) for row in table.rows]}


def _remedy(remedy: Remedy) -> dict[str, Any]:
    return {
        "kind": remedy.kind,
        "id": remedy.id,
        "summary": remedy.summary,
        "command": str(remedy.command),
        "cost": remedy.cost,
        "proof": remedy.proof,
        "helps": remedy.helps,
    }


def _time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def replay(results: Sequence[Replayed], flips: Sequence[Flip] = ()) -> dict[str, Any]:
    """`triage.replay/1`, with the verdicts that are not those of another result."""
    return {
        "schema": "triage.replay/1",
        "cases": [
            {
                "name": item.name,
                "passed": not item.differences,
                "differences": [asdict(part) for part in item.differences],
                "found": None if item.found is None else parts(item.found),
            }
            for item in results
        ],
        "flips": [
            {
                "name": item.name,
                "changed": {part: {"before": old, "now": new} for part, (old, new) in item.changed.items()},
            }
            for item in flips
        ],
        "failed": sum(bool(item.differences) for item in results),
    }


def verification(result: Verification, report: Report | None) -> dict[str, Any]:
    """`triage.verification/1`, with the diagnosis of the run that it started when that run died."""
    return {
        "schema": "triage.verification/1",
        **asdict(replace(result, arguments=dict(result.arguments), metrics=(), loads=())),
        "metrics": [asdict(replace(item, failures=dict(item.failures))) for item in result.metrics],
        "loads": [asdict(load) for load in result.loads],
        "diagnosis": None if report is None else diagnosis(report),
    }


def capture(case: Captured) -> dict[str, Any]:
    """`triage.capture/1`."""
    return {
        "schema": "triage.capture/1",
        "directory": str(case.directory),
        "answered": case.answered,
        "missing": case.missing,
    }


def case(contents: CaseContents) -> dict[str, Any]:
    """`triage.case-contents/1`."""
    return {
        "schema": "triage.case-contents/1",
        "created": contents.created,
        "prompts_kept": contents.prompts_kept,
        "entries": [vars(entry) for entry in contents.entries],
    }
