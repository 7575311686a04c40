"""The kernel's own lines.

[74889.644138] NVRM: Xid (PCI:0000:02:00): 79, ...
[Fri Nov 29 14:00:00 2026] Out of memory: Killed process 4711 (python) ...
kern  :err   : [74889.644138] text            dmesg -x
kern: warning: [2026-06-24T12:05:21.085308861Z]: text      talosctl
"""

from __future__ import annotations

import re

from triage.logs.formats import times
from triage.logs.reading.line import Line

STARTS = "[<k"
ERRORS = (r"kern {0,4}: {0,4}(?:emerg|alert|crit|err)",)

_LEVEL = re.compile(r"(?:kern {0,4}: {0,4}(\w{3,8}) {0,3}: |<(\d{1,3})>)(?=\[)")
_SINCE_BOOT = re.compile(r"\[ {0,6}(\d{1,9})\.(\d{6})\] ?")
_ISO = re.compile(r"\[(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)\]: ?")
_DATED = re.compile(r"\[[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})\] ?")
LEVELS = {
    "emerg": "CRITICAL",
    "alert": "CRITICAL",
    "crit": "CRITICAL",
    "err": "ERROR",
    "error": "ERROR",
    "warn": "WARNING",
    "warning": "WARNING",
}


def peel(line: Line) -> bool:
    text = line.text
    level = _LEVEL.match(text)
    start = level.end() if level else 0
    match = _SINCE_BOOT.match(text, start)
    stamp = _ISO.match(text, start) if level else None
    if match is not None:
        line.mono = float(f"{match[1]}.{match[2]}")
    elif stamp is not None:
        match = stamp
        line.at(times.iso(match[1], match[2], match[3], match[4]))
    else:
        match = _DATED.match(text, start)
        if match is None or match[1] not in times.MONTHS:
            return False
        date = f"{match[4]}-{times.MONTHS[match[1]]:02}-{int(match[2]):02}"
        line.at(times.seconds(date, match[3]))
    if level and level[1]:
        line.level = LEVELS.get(level[1], level[1].upper())
    if not line.author:
        # in front of a program's own prefix it is only text that looks like the kernel's
        line.author = "program" if line.repeating or line.tag_pid is not None else "kernel"
    if line.kernel:
        line.identifier = line.identifier or "kernel"
    line.head = True
    line.text = text[match.end() :]
    return True
