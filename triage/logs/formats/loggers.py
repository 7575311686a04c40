"""Loggers that say their level in words.

2026-05-12 14:03:59,123 - lmdeploy - ERROR - engine.py:12 - text     Python's logging, as often set up
2026-05-12 14:03:59,412\tINFO worker.py:1841 -- text                  Ray's driver
ERROR text_generation_launcher: text rank=0                           TGI, behind a time
"""

from __future__ import annotations

import re

from triage.logs.formats import times
from triage.logs.reading.line import Line

STARTS = "0123456789EWID "
ERRORS = (
    r":\d\d(?:[,.]\d{3,6})?(?:\t|\\+t| - | )(?:[\w.]{1,80} - )?(?:ERROR|CRITICAL)\b",
    r"(?:ERROR|CRITICAL) (?:[\w-]{1,60}: )?text_generation_",
)

_LEVEL = r"(DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)"
_LOGGING = re.compile(
    r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:[,.](\d{3,6}))?(?:\t| - | )(?:([\w.]{1,80}) - )?"
    + _LEVEL
    + r"\b(?: - | |:|\t)\s?(?:([\w.]{1,120}:\d{1,6}) (?:-|--) )?"
)
_TGI = re.compile(r" {0,2}" + _LEVEL + r" (?:[\w-]{1,60}: )?text_generation_\w{1,40}: ")
_TGI_RANK = re.compile(r" rank=(\d{1,6})$")


def peel(line: Line) -> bool:
    match = _LOGGING.match(line.text)
    if match is not None:
        line.at(times.iso(match[1], match[2], match[3]))
        line.identifier = line.identifier or match[4] or ""
        line.level, line.site = match[5], match[6] or ""
        line.head = True
        line.text = line.text[match.end() :]
        return True
    match = _TGI.match(line.text)
    if match is None:
        return False
    line.level = match[1]
    line.head = True
    text = line.text[match.end() :]
    rank = _TGI_RANK.search(text[-16:])
    if rank is not None:
        line.ranks = frozenset((f"rank{int(rank[1])}",))
        text = text[: -len(rank[0])]
    line.text = text
    return True
