"""A name for a fault that stays the same wherever and whenever it happens.

The fingerprint of an incident is the first 16 hexadecimal digits of the SHA-256 of these, joined by
newlines:

    engine                 `sglang`, `vllm` or nothing
    type                   the exception's class without its module, or the type of another fault
    message                its first line (and the second of a pydantic error), at most 160 characters,
                           with addresses, identifiers, paths, quoted paths and numbers made equal
    module:function        of the culprit frame; the module's path from the engine's package on
    types of the chain     nearest first

An incident without an initiator uses its candidates' types and messages instead. Hosts, pids, ranks,
times, line numbers and versions are not part of it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache

from triage.logs.faults.frames import module_tail
from triage.logs.model import Fault

_SUBSTITUTES = (
    (r"\b(?:https?|file|tcp|ipc)://[^\s'\"]{1,400}", "<url>"),
    (r"(?<![\w.])(?:~|\.{0,2})(?:/[\w.@+~-]{1,200}){2,40}/?", "<path>"),
    (r"\b0x[0-9a-fA-F]{1,32}\b", "<hex>"),
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{13,20}\b", "<id>"),
    (r"\b(?=[0-9a-f-]{0,64}\d)[0-9a-f]{8,64}(?:-[0-9a-f]{1,16}){0,4}\b", "<id>"),
    (r"\d+(?:[.,]\d+)*", "#"),
)
_compiled = lru_cache(maxsize=None)(re.compile)


def normal(message: str) -> str:
    """A message with what differs from run to run made equal."""
    lines = [line.strip() for line in message[:4000].splitlines() if line.strip()]
    text = lines[0] if lines else ""
    if len(lines) > 1 and "validation error" in text:
        text = f"{text} {lines[1]}"
    return _normal(text[:400])


@lru_cache(maxsize=4096)
def _normal(text: str) -> str:
    for pattern, substitute in _SUBSTITUTES:
        text = _compiled(pattern).sub(substitute, text)
    return " ".join(text.split())[:160]


def short_type(name: str) -> str:
    return name.rpartition(".")[2]


def fingerprint(engine: str, fault: Fault | None, candidates: Iterable[Fault] = ()) -> str:
    parts = [engine]
    if fault is not None:
        parts += [short_type(fault.type), normal(fault.message)]
        if fault.frame is not None:
            parts.append(f"{module_tail(fault.frame.file)}:{fault.frame.function}")
        parts += [short_type(link.type) for link in fault.chain]
    else:
        parts += sorted({f"{short_type(each.type)} {normal(each.message)}" for each in candidates})
    return hashlib.sha256("\n".join(parts).encode("utf-8", "backslashreplace")).hexdigest()[:16]
