"""Times as a person gives them, about a log: as the log writes them, or back from its last record."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from triage.common.errors import UsageError
from triage.logs.formats import times

_UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_BACK = re.compile(r"-(\d{1,9}) ?(s|sec|m|min|h|hour|d|day)s?$")
_CLOCK = r"(?P<clock>\d\d:\d\d(?::\d\d)?)(?:[.,](?P<fraction>\d{1,9}))?"
_ZONE = r" ?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)?$"
_FULL = re.compile(r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ]" + _CLOCK + ")?" + _ZONE)
_YEARLESS = re.compile(
    r"(?:(?P<month>\d\d)-|(?P<name>[A-Z][a-z]{2}) {1,2})(?P<day>\d{1,2}) " + _CLOCK + _ZONE
)
_TODAY = re.compile(_CLOCK + _ZONE)


@dataclass(frozen=True)
class Window:
    """A stretch of time, both ends in it. What has no time is in no window but an open one."""

    since: datetime | None = None
    until: datetime | None = None

    def __contains__(self, time: datetime | None) -> bool:
        if time is None:
            return self.since is None and self.until is None
        return (self.since is None or _compare(self.since, time) <= 0) and (
            self.until is None or _compare(self.until, time) >= 0
        )


ANY_TIME = Window()


def window(since: str, until: str, last: Callable[[], datetime | None]) -> Window:
    """The window between two times, "" for an open end. `last` gives the time of the log's last record.

    Raises UsageError for what is no time, and for a log without times.
    """
    if not since and not until:
        return ANY_TIME
    end = last()
    if end is None:
        raise UsageError(
            "selecting", since or until, "no record of this log has a time", "select with --grep"
        )
    start = moment(since, end) if since else None
    if start is not None and _TODAY.match(since) and _compare(start, end) > 0:
        start -= timedelta(days=1)  # a clock time after the last record's is the day before's
    return Window(start, moment(until, end) if until else None)


def moment(text: str, last: datetime) -> datetime:
    """The time that a text means in a log whose last record is of `last`; in its zone unless it names one."""
    back = _BACK.match(text)
    if back is not None:
        return last - timedelta(seconds=int(back[1]) * _UNITS[back[2]])
    match = _FULL.match(text) or _YEARLESS.match(text) or _TODAY.match(text)
    time = _of(match, last) if match is not None else None
    if time is None:
        raise UsageError(
            "selecting", repr(text), "this is no time", "write 2026-05-12 14:03:59, 14:03, or -10min"
        )
    if time.tzinfo is not None and last.tzinfo is None:
        raise UsageError("selecting", repr(text), "the log does not say its zone", "leave the zone out")
    return time


def _of(match: re.Match[str], last: datetime) -> datetime | None:
    part = match.groupdict()
    date = part.get("date") or f"{last:%Y-%m-%d}"
    if part.get("day"):
        month = times.MONTHS.get(part["name"], 0) if part["name"] else int(part["month"])
        date = f"{last.year:04}-{month:02}-{int(part['day']):02}"
    clock = part["clock"] or "00:00"
    return times.iso(date, clock if len(clock) > 5 else f"{clock}:00", part["fraction"], part["zone"])


def seconds(time: datetime) -> float:
    """Since 1970, to order times with and without a zone."""
    return (
        time.replace(tzinfo=None) - (time.utcoffset() or timedelta(0)) - datetime(1970, 1, 1)
    ).total_seconds()


def _compare(bound: datetime, time: datetime) -> float:
    """Seconds by which a bound is later. One without a zone is meant as the log writes its times."""
    if bound.tzinfo is None or time.tzinfo is None:
        bound, time = bound.replace(tzinfo=None), time.replace(tzinfo=None)
    return (bound - time).total_seconds()
