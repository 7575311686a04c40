"""How much a signature asks for: of two rules that fit, the one that asks for more is the better."""

from __future__ import annotations

from triage.common.patterns import literals
from triage.rules.schema import Signature

COMMON = (
    *("Exception", "RuntimeError", "ValueError", "TypeError", "AssertionError", "AttributeError"),
    *("KeyError", "IndexError", "OSError", "ImportError", "NotImplementedError"),
)
"""Classes that everybody raises: their names say nothing."""


def specificity(signature: Signature) -> int:
    """Characters that are always the same in what it matches."""
    kind = signature.exception.strip("^$")
    asked = [signature.message, signature.header, *(frame.code for frame in signature.frames)]
    asked += [frame.function for frame in signature.frames]
    files = sum(len(frame.file.replace("*", "")) for frame in signature.frames)
    return sum(map(literals, asked)) + files + (0 if kind in COMMON else literals(kind))
