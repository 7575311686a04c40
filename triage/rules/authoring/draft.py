"""A rule file drafted from an incident: signature, frames of the engine, the log's window as its case.

What only a person can say is marked with `TO BE WRITTEN`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

import yaml

from triage.common.commands import command
from triage.common.errors import UsageError
from triage.engines import ENGINES
from triage.evidence.recorded import Recorded
from triage.evidence.redaction.anonymity import Anonymiser, users_in
from triage.evidence.redaction.redactor import Redactor
from triage.logs import read_incidents
from triage.logs.faults.frames import engine_package, module_tail
from triage.logs.model import Fault, Frame, Incident, LogSource
from triage.logs.reading.content import rows
from triage.rules.authoring.check import RuleCase, check, fired
from triage.rules.authoring.lint import TO_WRITE
from triage.rules.base import ID
from triage.rules.schema import Rule
from triage.workflows.diagnose import Knowledge

WINDOWS = (40, 150, 600)
"""Lines before the initiator's that the case holds: the first that suffices."""

AFTER = 3
MAX_LINE = 20_000  # characters; the banner of an engine has about ten thousand
MESSAGE_CHARS = 160
OTHER_WORDS = "other words in the same place"

# What differs from run to run, and what stands for it in a pattern.
_VARIABLE = tuple(
    (re.compile(found), stands)
    for found, stands in (
        (r"\b(?:https?|file|tcp|ipc)://[^\s'\"]{1,400}", r"\S{1,400}"),
        (r"(?<![\w.])(?:~|\.{0,2})(?:/[\w.@+~-]{1,200}){2,40}/?", r"[^\s'\"]{1,400}"),
        (r"\b0x[0-9a-fA-F]{1,32}\b", r"0x[0-9a-fA-F]{1,32}"),
        (r"\b(?=[0-9a-f-]{0,64}\d)[0-9a-f]{8,64}(?:-[0-9a-f]{1,16}){0,4}\b", r"[0-9a-f-]{8,80}"),
        (r"<(?:token|user|host|address)-\d+>", r"\S{1,400}"),
        (r"\d+(?:[.,]\d+)*", r"[\d.,]{1,30}"),
    )
)


@dataclass(frozen=True)
class Draft:
    """The file's text, the rule that it is, and what its author should look at."""

    text: str
    rule: Rule
    notes: tuple[str, ...]


def draft(id: str, sources: Sequence[LogSource], knowledge: Knowledge) -> Draft:
    """A rule for the last incident of the logs, which matches its own case.

    Raises UsageError where there is no incident, the id is taken or none, or no window of the log shows
    the fault.
    """
    if not re.fullmatch(ID, id) or len(id) > 64:
        happened = "an id is at most 64 small letters and digits, with single hyphens between"
        raise UsageError("drafting a rule", id, happened, command("rules list"))
    if any(rule.id == id for rule in knowledge.rules):
        raise UsageError("drafting a rule", id, "there is a rule of that id", command("explain", "", id))
    incidents = read_incidents(sources)
    if not incidents:
        raise UsageError(
            "drafting a rule", id, "the log holds no incident", "name the log of a run that failed"
        )
    incident = incidents[-1]
    fault = incident.initiator or incident.candidates[0]
    source = next(source for source in sources if source.name == fault.position.source)
    for before in WINDOWS:
        window = list(_window(source, fault.position.line - before, fault.position.line + AFTER))
        made = _made(id, incident, fault, "\n".join(window) + "\n")
        with_it = replace(knowledge, rules=(*knowledge.rules, made.rule))
        found = check(RuleCase(id, "match", 1, made.rule.cases.match[0].log), with_it)
        if id in found.fired:
            near = fired(made.rule.cases.near[0].log, with_it)
            notes = [f"{other} matches its case as well" for other in found.fired if other != id]
            notes += ["its near miss matches too: write another"] if id in near else []
            return replace(made, notes=(*made.notes, *notes))
    raise UsageError(
        "drafting a rule",
        id,
        f"the {WINDOWS[-1]} lines before line {fault.position.line} do not show the fault by themselves",
        "write the case by hand; docs/rules.md says how",
    )


def generalised(message: str) -> str:
    """A pattern for the first line of a message, in which numbers, paths and addresses may be others."""
    text = message.strip().partition("\n")[0][:MESSAGE_CHARS]
    found, at = [], 0
    while at < len(text):
        matches = [
            (match.start(), -match.end(), stands)
            for pattern, stands in _VARIABLE
            if (match := pattern.search(text, at)) and match.end() > match.start()
        ]
        if not matches:
            break
        start, end, stands = min(matches)
        found += [_escaped(text[at:start]), stands]
        at = -end
    pattern = "".join((*found, _escaped(text[at:])))
    return f"^{pattern}" if pattern else ""


def _escaped(text: str) -> str:
    return re.sub(r"\\([ \-#&~'\"])", r"\1", re.escape(text))


def _made(id: str, incident: Incident, fault: Fault, window: str) -> Draft:
    redactor = Redactor()
    anonymiser = Anonymiser(redactor, users_in([Recorded("log", "", window)]), ())
    log = anonymiser.text(redactor.redact(window))
    message = anonymiser.text(redactor.redact(fault.message))
    first = message.strip().partition("\n")[0]
    signature = _signature(replace(fault, message=message))
    engine = incident.facts.get("engine", "")
    near = log.replace(first, OTHER_WORDS) if first else log.replace(fault.type, "SomeOtherError")
    data: dict[str, Any] = {
        "id": id,
        "title": f"{TO_WRITE}: {first or fault.type}"[:120],
        "category": "unknown",
        "role": "cause",
        **({"engine": engine} if engine in ENGINES else {}),
        "signature": signature,
        "explanation": f"{TO_WRITE}: what it means, for somebody who has never seen it.\n",
        "probes": [],
        "remedies": [],
        "references": [],
        "cases": {
            "match": [{"log": log}],
            "near": [{"note": f"{OTHER_WORDS}; a real look-alike is better", "log": near}],
        },
    }
    text = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    notes = () if incident.initiator else ("the log does not decide who came first: this is one candidate",)
    return Draft(text, Rule.model_validate(yaml.safe_load(text)), notes)


def _signature(fault: Fault) -> dict[str, Any]:
    found: dict[str, Any] = {} if fault.kind == "exception" else {"kind": fault.kind}
    found["exception"] = f"{'' if '.' in fault.type else '^'}{_escaped(fault.type.rpartition('.')[2])}$"
    message = generalised(fault.message)
    if message:
        found["message"] = message
    frames = list(dict.fromkeys(frame for frame in _telling(fault) if frame is not None))
    if frames:
        found["frames"] = [
            {"as": name, "file": f"/{module_tail(frame.file)}", "function": _escaped(frame.function)}
            for name, frame in zip(("site", "accessor"), frames, strict=False)
        ]
    return found


def _telling(fault: Fault) -> Iterator[Frame | None]:
    """The culprit, and the engine's innermost frame, where they are the engine's."""
    own = [frame for frame in fault.frames if engine_package(frame)]
    if fault.frame in own:
        yield fault.frame
        yield own[-1]


def _window(source: LogSource, first: int, last: int) -> Iterator[str]:
    """Lines of a log, 1-based; entries of a journal in JSON as `journalctl -o short` would print them."""
    number = 1
    for _, row, ends in rows(source.data, 0, len(source.data)):
        if number > last:
            return
        if number >= first:
            yield _as_text(row.decode("utf-8", "backslashreplace").rstrip("\r"))[:MAX_LINE]
        number += ends


def _as_text(line: str) -> str:
    if not line.startswith("{"):
        return line
    try:
        entry = json.loads(line)
        message = entry["MESSAGE"]
        if isinstance(message, list):
            message = bytes(message).decode("utf-8", "backslashreplace")
        seconds = int(entry["__REALTIME_TIMESTAMP"]) / 1e6
        time = datetime.fromtimestamp(seconds, timezone.utc)
        who = entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM") or "service"
        return f"{time:%b %d %H:%M:%S} host {who}[{entry.get('_PID', 1)}]: {message}"
    except (ValueError, LookupError, TypeError, OverflowError, OSError, RecursionError):
        return line


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    lines = [line.rstrip() for line in text.splitlines()]
    block = "\n" in text
    value = "\n".join(lines) + "\n" if block else text
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if block else None)


_Dumper.add_representer(str, _text)
