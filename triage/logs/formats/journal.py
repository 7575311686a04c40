"""journald as `journalctl` prints it: the short forms, and JSON lines.

    Nov 29 16:22:15 gpu01 python[75]: text            (gpu01 is missing with --no-hostname)
    2026-11-29T16:22:15.123456+0000 gpu01 systemd[1]: text
    Sun 2026-11-29 16:22:15 UTC gpu01 python[75]: text
    1795969335.522175 gpu01 python[75]: text
    [ 7564.977849] gpu01 python[75]: text
    {"__CURSOR":"s=..","__REALTIME_TIMESTAMP":"1795969335522175","_PID":"75","MESSAGE":"text"}

In JSON a MESSAGE is a string, a list of byte values (control characters, invalid UTF-8), null (longer
than 4,096 bytes and no `--all`), or a list of these when the field repeats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from triage.engines import ENGINES
from triage.logs.formats import times
from triage.logs.reading.line import Author, Line

STARTS = "[JFMASOND0123456789TW"
GAP = "__GAP"
"""The field of an entry before which others were left out, where a journal comes in windows."""

_WHO = r"(?P<host>[\w.-]{1,255}) (?P<who>[^\s:\[\]]{1,128})(?:\[(?P<pid>\d{1,10})\])?: ?"
_DAY = r"(?P<mon>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)(?:\.(?P<frac>\d{1,9}))? "
_SHORT = re.compile(_DAY + _WHO)
_NO_HOST = re.compile(
    _DAY + r"(?P<host>)(?P<who>[^\s:\[\]]{1,128}(?=\[)|kernel)(?:\[(?P<pid>\d{1,10})\])?: ?"
)
_ISO = re.compile(
    r"(?:[A-Z][a-z]{2} )?(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<frac>\d{1,9}))?"
    r" ?(?P<zone>Z|[+-]\d\d:?\d\d|[A-Z]{3,5})? " + _WHO
)
_UNIX = re.compile(r"(?P<sec>\d{9,11})\.(?P<frac>\d{6}) " + _WHO)

_MONOTONIC = re.compile(r"\[ {0,6}(?P<since>\d{1,9}\.\d{6})\] " + _WHO)

# systemd speaks of another unit's run in INVOCATION_ID and UNIT, a user's own systemd in USER_*; a
# service's own lines carry _SYSTEMD_*, and the unit of a user's service is that user's systemd.
_INVOCATION = ("INVOCATION_ID", "USER_INVOCATION_ID", "_SYSTEMD_INVOCATION_ID")
_UNIT = ("UNIT", "USER_UNIT", "_SYSTEMD_USER_UNIT", "_SYSTEMD_UNIT")

PRIORITIES = ("CRITICAL", "CRITICAL", "CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG")
_TITLE_RANKS = re.compile(r"(?:_|\b)((?:DP|PP|PCP|TP|DCP|EP|ATTN_CP|MOE_DP)\d{1,6})(?=_|\b|$)")
_TITLES = [title for engine in ENGINES.values() for title in engine.processes.titles]
_TITLE = re.compile(rf"(?:{'|'.join(map(re.escape, _TITLES))})\w{{1,80}}")


def peel(line: Line) -> bool:
    text = line.text
    if line.enveloped:
        return False
    if text[0] == "[":
        match = _MONOTONIC.match(text)
        if match is None or not (match["pid"] or match["who"] == "kernel"):
            return False
    elif text[0].isdigit():
        match = _ISO.match(text) or _UNIX.match(text)
    else:
        match = _SHORT.match(text) or _NO_HOST.match(text) or _ISO.match(text)
    if match is None:
        return False
    part = match.groupdict()
    if "since" in part:
        line.mono = float(part["since"])
    elif "mon" in part:
        month = times.MONTHS.get(part["mon"])
        if month is None:
            return False
        line.at(times.yearless(month, int(part["day"]), part["clock"], part["frac"]), dated=False)
    elif "sec" in part:
        line.at(times.microseconds(part["sec"] + part["frac"]))
    else:
        zone = part["zone"]
        if not (part["pid"] or part["who"] == "kernel" or (zone and ":" not in zone and zone != "Z")):
            return False
        known = zone if zone and (zone[0] in "Z+-" or zone in ("UTC", "GMT")) else None
        line.at(times.iso(part["date"], part["clock"], part["frac"], known))
    line.text = text[match.end() :]
    _written_by(line, part["who"], part["pid"])
    line.host = part["host"]
    line.enveloped = True
    return True


def _written_by(line: Line, who: str, pid: str | None) -> None:
    line.identifier = who
    if pid:
        line.pid = int(pid)
    line.author = _author(who, pid)


def _author(who: str, pid: str | None) -> Author:
    """Whose line it is. What users send is in the text of a service's lines, not in this.

    The kernel has no pid, as a program that calls itself `kernel` has. systemd speaks as `(python)` while
    it makes the process of that program.
    """
    if who == "kernel" and not int(pid or 0):
        return "kernel"
    if who.startswith(("systemd-", "(")) or who == "systemd":
        return "manager"
    return "program" if who or pid else ""


def from_json(line: Line, fields: Mapping[str, Any]) -> bool:
    """Read one JSON line of a journal; `line` is left alone when the fields are not journald's."""
    if not ("MESSAGE" in fields or "__CURSOR" in fields):
        return False
    fill(line, fields)
    line.text = message(fields.get("MESSAGE"))
    return True


def fill(line: Line, fields: Mapping[str, Any]) -> None:
    """Take what the fields of one journal entry say of a line, except its message."""
    line.enveloped = True
    line.gap = GAP in fields
    line.cursor = _one(fields.get("__CURSOR")) or None
    line.at(times.microseconds(_one(fields.get("__REALTIME_TIMESTAMP"))))
    line.boot = _one(fields.get("_BOOT_ID"))
    line.host = _one(fields.get("_HOSTNAME"))
    line.invocation = _first(fields, _INVOCATION)
    line.unit = _first(fields, _UNIT)
    pid = _one(fields.get("_PID"))
    who = _one(fields.get("SYSLOG_IDENTIFIER")) or _one(fields.get("_COMM"))
    _written_by(line, who, pid if pid.isdecimal() and len(pid) < 11 else None)
    transport = _one(fields.get("_TRANSPORT"))
    if transport in ("kernel", "stdout"):  # systemd and the kernel write to no standard output
        line.author = "kernel" if transport == "kernel" else "program"
    priority = _one(fields.get("PRIORITY"))
    # of a service's output it only says which stream it came from
    if line.author in ("kernel", "manager") and len(priority) == 1 and priority in "01234567":
        line.level = PRIORITIES[int(priority)]
    for title in (_one(fields.get("_CMDLINE")), _one(fields.get("_COMM"))):
        if title and _TITLE.match(title):
            line.process = line.process or title[:100].partition("::")[2]
            line.ranks = line.ranks or frozenset(_TITLE_RANKS.findall(title[:200]))


def message(value: object) -> str:
    """The text of a MESSAGE field in any of its JSON forms."""
    if isinstance(value, list) and value and not isinstance(value[0], int):
        return "\n".join(filter(None, map(_text, value)))
    return _text(value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(item, int) and 0 <= item < 256 for item in value):
        return bytes(value).decode("utf-8", "backslashreplace")
    return ""


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        if name in fields and (value := _one(fields[name])):
            return value
    return ""


def _one(value: object) -> str:
    """A field as text; the first value of a field that repeats."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list) and value and not isinstance(value[0], int):
        return _text(value[0])
    return _text(value)
