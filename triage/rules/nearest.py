"""Rules that fit an unexplained incident in part: what agrees, and what does not."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from triage.common.patterns import literals
from triage.logs.model import Fault, Incident
from triage.rules import match
from triage.rules.schema import FramePattern, Rule, Signature
from triage.rules.specificity import COMMON

LIMIT = 3
LEAST = 8  # characters that agree, so that what everybody raises is not enough


@dataclass(frozen=True)
class Nearest:
    """A rule that does not fit: the parts of its signature that hold, and in words those that do not."""

    rule: str
    title: str
    agrees: tuple[str, ...]  # `exception`, `message`, `header`, `frames`, `code`
    differs: tuple[str, ...]


@dataclass(frozen=True)
class _ClausePart:
    name: str
    holds: bool
    weight: int  # characters that are always the same in what agrees: how much that says
    differs: str


def nearest(incident: Incident, rules: Iterable[Rule], without: Container[str] = ()) -> tuple[Nearest, ...]:
    """At most three, the nearest first, of the rules whose id is not in `without`."""
    faults = (incident.initiator,) if incident.initiator else incident.candidates
    engine = incident.facts.get("engine", "")
    found = []
    for rule in rules:
        if rule.id in without or (rule.engine and engine and rule.engine != engine):
            continue
        tried = [
            _held(rule, signature, incident, carried)
            for fault in faults
            for carried in match.carried(fault)
            for signature in rule.signatures
        ]
        weight, near = max(tried, key=lambda item: (item[0], -len(item[1].differs)))
        if weight >= LEAST:
            found.append((-weight, len(near.differs), near.rule, near))
    return tuple(near for *_, near in sorted(found, key=lambda item: item[:3])[:LIMIT])


def _held(rule: Rule, signature: Signature, incident: Incident, fault: Fault) -> tuple[int, Nearest]:
    parts = list(_parts(signature, incident, fault))
    agrees = tuple(dict.fromkeys(part.name for part in parts if part.holds and part.weight))
    differs = tuple(part.differs for part in parts if not part.holds)
    weight = sum(part.weight for part in parts if part.holds)
    return weight, Nearest(rule.id, rule.title, agrees, differs)


def _parts(signature: Signature, incident: Incident, fault: Fault) -> Iterator[_ClausePart]:
    if signature.kind:
        yield _ClausePart(
            "kind", signature.kind == fault.kind, 0, f"it is about a fault of kind {signature.kind}"
        )
    for name, pattern, text in (
        ("exception", signature.exception, fault.type),
        ("message", signature.message, fault.message),
        ("header", signature.header, fault.header),
    ):
        if pattern:
            holds = match.found(pattern, text)
            everyone = name == "exception" and fault.type in COMMON
            weight = 1 if everyone else literals(pattern) if holds else 0
            yield _ClausePart(name, holds, weight, f"the {name} does not match {pattern}")
    alone = [any(match.is_frame(frame, one) for one in fault.frames) for frame in signature.frames]
    for frame, holds in zip(signature.frames, alone, strict=True):
        name = frame.file.rpartition("/")[2].replace("*", "")
        place = frame.model_copy(update={"code": ""})
        there = any(match.is_frame(place, one) for one in fault.frames)
        yield _ClausePart("frames", there, len(name), f"there is no frame {_in_words(place)}")
        if frame.code and there:
            said = f"the frame of {frame.file} is not at {frame.code}"
            yield _ClausePart("code", holds, literals(frame.code), said)
    if signature.frames and all(alone) and match.named_frames(signature, fault) is None:
        yield _ClausePart("order", False, 0, "its frames stand in another order, or are not the innermost")
    if signature.phase:
        holds, said = match.found(signature.phase, incident.phase), incident.phase or "not known"
        yield _ClausePart("phase", holds, 0, f"the phase is {said}, it asks for {signature.phase}")
    for name, pattern in signature.facts.items():
        value = incident.facts.get(name, "")
        said = f"{name} is {value or 'not known'}, it asks for {pattern}"
        yield _ClausePart("facts", match.found(pattern, value), 0, said)


def _in_words(frame: FramePattern) -> str:
    words = [f"of {frame.file}"]
    words += [f"in {frame.function}"] if frame.function else []
    return " ".join(words)
