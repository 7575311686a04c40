"""Records of Go's loggers as keys and values (slog, logrus): Ollama, container daemons, Kubernetes' parts.

    time=2026-05-12T14:03:59.123+02:00 level=ERROR source=server.go:512 msg="..." error="exit status 2"

The text of the record is its message and what comes behind it.
"""

from __future__ import annotations

import re

from triage.logs.formats import times
from triage.logs.reading.line import Line

STARTS = "t"
ERRORS = (r" level=(?i:error|fatal|panic)\b",)

FATAL = {"FATAL": "CRITICAL", "PANIC": "CRITICAL"}

_RECORD = re.compile(
    r'(?:time|ts)="?([\dT:. +Z-]{19,40}?)"? level=(\w{3,10}) (?:(?:source|caller)=([\w./-]{1,120}:\d{1,6}) )?'
    r'msg=(?:"((?:[^"\\]|\\.){0,16000})"|(\S{1,16000}))'
)
_ESCAPED = re.compile(r"\\(.)")
_CONTROL = {"n": "\n", "t": "\t", "r": "\r"}


def peel(line: Line) -> bool:
    match = _RECORD.match(line.text)
    if match is None:
        return False
    line.at(times.stamp(match[1]))
    level = match[2].upper()
    line.level, line.site = FATAL.get(level, level), match[3] or ""
    line.head = True
    message = _ESCAPED.sub(lambda escape: _CONTROL.get(escape[1], escape[1]), match[4] or match[5] or "")
    line.text = message + line.text[match.end() :]
    return True
