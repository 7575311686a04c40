"""A report for the engine's tracker, in Markdown: redacted, and nothing of a log in it is markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from triage.common.wording import counted
from triage.evidence.model import Deployment
from triage.evidence.recorded import Recorded
from triage.evidence.redaction.anonymity import Anonymiser, host_names, users_in
from triage.evidence.redaction.redactor import Redactor
from triage.logs.model import Fault, Incident
from triage.report.layout import layout_in_words
from triage.report.markup import block, code
from triage.report.safe import safe_line
from triage.rules.diagnosis import Diagnosis
from triage.workflows.diagnose import DiagnosedIncident, Report

MAX_FRAMES = 60  # of one traceback, the innermost ones
MAX_FAULTS = 20
MAX_MESSAGE = 4000  # characters
_LINKS = {
    "cause": "The above exception was the direct cause of the following exception:",
    "context": "During handling of the above exception, another exception occurred:",
}


def bug_report(report: Report) -> str:
    """Return the report of the last incident. Raises LookupError if there is none."""
    found = report.incidents[-1]
    write = _Writer(_names(report, found.incident))
    incident, deployment = found.incident, report.deployment
    fault = incident.initiator or incident.candidates[0]
    others = [other for other in incident.faults if other.position != fault.position]
    parts = (
        [f"# {write.code(_message(fault))}"],
        _fields(write, _summary(incident, deployment)),
        ["## Launch arguments", write.block(_arguments(deployment))] if deployment.arguments else [],
        ["## What failed first", write.block("\n".join(_traceback(fault)))],
        _bullets("because", (write.code(reason) for reason in fault.because)),
        ["## Others"] if others else [],
        _list(_other(write, other) for other in others[:MAX_FAULTS]),
        ["## Phases"] if incident.phases else [],
        _list(
            f"{write.code(phase.name)} {write.code(', '.join(phase.ranks)) if phase.ranks else ''}".rstrip()
            for phase in incident.phases
        ),
        ["## What the log says of the deployment"] if incident.facts else [],
        _fields(write, incident.facts.items()),
        *_rules(write, found),
    )
    return "\n\n".join(part for group in parts for part in group) + "\n"


class _Writer:
    """Text of others as Markdown code, redacted."""

    def __init__(self, anonymiser: tuple[Redactor, Anonymiser]) -> None:
        self._redactor, self._anonymiser = anonymiser

    def clean(self, text: str) -> str:
        return self._anonymiser.text(self._redactor.redact(text))

    def code(self, text: str) -> str:
        return code(self.clean(text))

    def block(self, text: str) -> str:
        return block(self.clean(text))


def _names(report: Report, incident: Incident) -> tuple[Redactor, Anonymiser]:
    """Whom and what to replace: the host, and people whose home directories show."""
    redactor = Redactor()
    deployment = report.deployment
    places = [deployment.python, deployment.package_root, deployment.model, *deployment.argv]
    places += [frame.file for fault in incident.faults for frame in fault.frames[-MAX_FRAMES:]]
    places += [fault.message[:MAX_MESSAGE] for fault in incident.faults[:MAX_FAULTS]]
    users = users_in([Recorded("report", "", "\n".join(places))])
    hosts = host_names(report.origin.name) if report.origin.kind == "host" else ()
    return redactor, Anonymiser(redactor, users, hosts)


def _summary(incident: Incident, deployment: Deployment) -> Iterator[tuple[str, str]]:
    yield "engine", " ".join(filter(None, (deployment.engine, deployment.version)))
    yield "versions", ", ".join(f"{name} {version}" for name, version in deployment.versions.items())
    yield "layout", layout_in_words(deployment, (incident,))
    yield "model", deployment.model
    yield "started by", deployment.manager
    yield "ended", " ".join(filter(None, (deployment.result, deployment.exit_status)))
    yield "last phase", incident.phase
    yield "silent ranks", ", ".join(incident.silent_ranks)
    yield "times", str(incident.count)
    yield "fingerprint", incident.fingerprint


def _arguments(deployment: Deployment) -> str:
    return "\n".join(f"--{name} {value}".rstrip() for name, value in deployment.arguments.items())


def _traceback(fault: Fault) -> Iterator[str]:
    """Return a fault as Python prints it, with what led to it first."""
    if fault.ranks:
        yield f"[{', '.join(sorted(fault.ranks))}]"
    for each in (*reversed(fault.chain), fault):
        if each.frames:
            yield "Traceback (most recent call last):"
        if len(each.frames) > MAX_FRAMES:
            yield f"  ... {counted(len(each.frames) - MAX_FRAMES, 'frame')} before these"
        for frame in each.frames[-MAX_FRAMES:]:
            yield f'  File "{frame.file}", line {frame.line}, in {frame.function}'
            if frame.code:
                yield f"    {frame.code.strip()}"
        yield _message(each)[:MAX_MESSAGE]
        if each is not fault:
            yield f"\n{_LINKS[each.link or 'context']}\n"


def _other(write: _Writer, fault: Fault) -> str:
    who = f" {write.code(', '.join(sorted(fault.ranks)))}" if fault.ranks else ""
    return f"{fault.role}{who}: {write.code(_message(fault))}"


def _rules(write: _Writer, found: DiagnosedIncident) -> Iterator[list[str]]:
    standing = [item for item in found.diagnoses if item.outcome != "refuted"]
    refuted = [item for item in found.diagnoses if item.outcome == "refuted"]
    if standing:
        yield ["## What is supposed", _list_of(write, standing)]
    if refuted:
        yield ["## What was ruled out", _list_of(write, refuted)]
    if found.nearest:
        near = (
            f"{write.code(item.rule)} ({write.code(item.title)}): {write.code('; '.join(item.differs))}"
            for item in found.nearest
        )
        yield ["## What is near, and does not fit", *_list(near)]


def _list_of(write: _Writer, diagnoses: Iterable[Diagnosis]) -> str:
    lines = []
    for item in diagnoses:
        lines.append(f"- {write.code(item.rule)}, {item.outcome}: {write.code(item.title)}")
        lines += (
            f"  - {finding.kind} {finding.result}: {write.code(finding.detail)}" for finding in item.findings
        )
    return "\n".join(lines)


def _fields(write: _Writer, fields: Iterable[tuple[str, str]]) -> list[str]:
    return _list(f"{safe_line(name)}: {write.code(value)}" for name, value in fields if value)


def _bullets(title: str, lines: Iterable[str]) -> list[str]:
    return _list(f"{title} {line}" for line in lines)


def _list(lines: Iterable[str]) -> list[str]:
    text = "\n".join(f"- {line}" for line in lines)
    return [text] if text else []


def _message(fault: Fault) -> str:
    return f"{fault.type}: {fault.message}" if fault.message else fault.type
