"""Does a fault look like a rule's signature?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from triage.logs.model import Fault, Frame, Incident
from triage.rules.schema import FramePattern, Rule, Signature

MATCHED_CHARS = 4096  # of a message or header; rules are about its beginning


@dataclass(frozen=True)
class SignatureMatch:
    """A signature that holds for a fault, and the frames that it names."""

    rule: Rule
    fault: Fault
    frames: Mapping[str, Frame]
    signature: Signature


def match(rule: Rule, incident: Incident, fault: Fault) -> SignatureMatch | None:
    """The first of the rule's signatures that holds for the fault or an exception that it carries."""
    engine = incident.facts.get("engine", "")
    if rule.engine and engine and rule.engine != engine:
        return None
    for signature in rule.signatures:
        if not _facts(signature, incident):
            continue
        for candidate in carried(fault):
            if not _says(signature, candidate):
                continue
            frames = named_frames(signature, candidate)
            if frames is not None:
                return SignatureMatch(rule, candidate, frames, signature)
    return None


def carried(fault: Fault) -> Iterator[Fault]:
    """The fault itself, what led to it, and what it groups, each with what led to that."""
    yield fault
    yield from fault.chain
    for member in fault.members:
        yield from (member, *member.chain)


def _says(signature: Signature, fault: Fault) -> bool:
    return (
        (not signature.kind or signature.kind == fault.kind)
        and found(signature.exception, fault.type)
        and found(signature.message, fault.message)
        and found(signature.header, fault.header)
    )


def _facts(signature: Signature, incident: Incident) -> bool:
    return found(signature.phase, incident.phase) and all(
        found(pattern, incident.facts.get(name, "")) for name, pattern in signature.facts.items()
    )


def named_frames(signature: Signature, fault: Fault) -> dict[str, Frame] | None:
    """The named frames, or None when a pattern has no frame after that of the pattern before it.

    The innermost frame that fits is taken, so that a recursion's last turn is the one that is named.
    """
    if signature.innermost and signature.frames and fault.frames:
        last = signature.frames[-1]
        if not is_frame(last, fault.frames[-1]):
            return None
    named: dict[str, Frame] = {}
    end = len(fault.frames)
    for pattern in reversed(signature.frames):
        for index in range(end - 1, -1, -1):
            if is_frame(pattern, fault.frames[index]):
                named[pattern.name] = fault.frames[index]
                end = index
                break
        else:
            return None
    return named


def is_frame(pattern: FramePattern, frame: Frame) -> bool:
    """Whether a frame is as a rule describes it."""
    return (
        fnmatchcase(frame.file, f"*{pattern.file}")
        and (not pattern.function or re.fullmatch(pattern.function, frame.function) is not None)
        and found(pattern.code, frame.code)
    )


def found(pattern: str, text: str) -> bool:
    """Whether a pattern of a rule occurs in a text; an empty one asks for nothing."""
    return not pattern or _compiled(pattern).search(text[:MATCHED_CHARS]) is not None


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
