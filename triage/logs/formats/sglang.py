"""SGLang's own prefix: `[2026-05-12 14:03:59 PP3 TP1] text`.

No level and no pid; only the first line of a record has it. Labels come in an order that differs by
version. Older or configured differently: `ERROR 16:58:08 scheduler.py:2626] text`, without a date.
"""

from __future__ import annotations

import re
from functools import lru_cache

from triage.logs.formats import times
from triage.logs.reading.line import NO_RANKS, Line

STARTS = "[DIWEC"
ERRORS = (r"(?:ERROR|CRITICAL) \d\d:\d\d:\d\d ", r"(?:ERROR|CRITICAL)\b{escape}: {2}")

_PREFIX = re.compile(
    r"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:[.,](\d{3}))?"
    r"((?: (?:[A-Z][A-Z_]{1,9}\d{1,6}|encode_server|encode_dp_worker\[\d{1,6}\])){0,12})\] ?"
)
_UVICORN = re.compile(r"(INFO|WARNING|ERROR|DEBUG|CRITICAL): {2,}")
_UNDATED = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d:\d\d:\d\d) ([\w./-]{1,120}:\d{1,6})\] ?")


def peel(line: Line) -> bool:
    text = line.text
    match = _PREFIX.match(text)
    if match is not None:
        line.at(times.iso(match[1], match[2], match[3]))
        if match[4]:
            line.ranks = _labels(match[4])
        line.unranked = not match[4]
        line.head = True
        line.text = text = text[match.end() :]
        level = _UVICORN.match(text)
        if level is not None:
            line.level = level[1]
        return True
    match = _UNDATED.match(text)
    if match is None:
        return False
    line.level, line.site = match[1], match[3]
    line.head = True
    line.text = text[match.end() :]
    return True


@lru_cache(maxsize=4096)
def _labels(text: str) -> frozenset[str]:
    return frozenset(part for part in text.split() if part[0].isupper()) or NO_RANKS
