"""The ways in which logs write a time."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache

MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_OFFSET = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2}))?")
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@lru_cache(maxsize=4096)
def seconds(date: str, clock: str) -> datetime | None:
    """`2026-11-29`, `14:54:34`: naive."""
    try:
        return datetime.fromisoformat(f"{date} {clock}")
    except ValueError:
        return None


def iso(date: str, clock: str, fraction: str | None = None, zone: str | None = None) -> datetime | None:
    """ISO 8601 in parts: any number of fractional digits, `Z`, `+0200` or `+02:00`; aware with a zone."""
    time = seconds(date, clock)
    if time is None:
        return None
    if fraction:
        time = time.replace(microsecond=int(fraction[:6].ljust(6, "0")))
    known = offset(zone) if zone else None
    return time if known is None else time.replace(tzinfo=known)


@lru_cache(maxsize=64)
def offset(zone: str) -> timezone | None:
    """Return the offset of `Z`, `UTC`, `+0200`, `-02:00`, `+02`; None for ambiguous names of zones."""
    if zone in ("Z", "UTC", "GMT"):
        return timezone.utc
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    delta = timedelta(hours=int(found[2]) % 24, minutes=int(found[3] or 0) % 60)
    return timezone(-delta if found[1] == "-" else delta)


def yearless(month: int, day: int, clock: str, fraction: str | None = None) -> datetime | None:
    """A time whose year the log does not say: the latest such day that is not in the future."""
    time = _yearless(month, day, clock, datetime.now().toordinal())
    if time is not None and fraction:
        time = time.replace(microsecond=int(fraction[:6].ljust(6, "0")))
    return time


@lru_cache(maxsize=4096)
def _yearless(month: int, day: int, clock: str, today: int) -> datetime | None:
    tomorrow = datetime.fromordinal(today + 1)
    for year in range(tomorrow.year, tomorrow.year - 5, -1):
        time = seconds(f"{year:04}-{month:02}-{day:02}", clock)
        if time is not None and time.toordinal() <= tomorrow.toordinal():
            return time
    return None


def microseconds(text: str) -> datetime | None:
    """Microseconds since the epoch, as journald's `__REALTIME_TIMESTAMP`: aware, UTC."""
    try:
        return EPOCH + timedelta(microseconds=int(text[:20]))
    except (ValueError, OverflowError):
        return None


_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|UTC|GMT|[+-]\d\d:?\d\d)?")


def stamp(text: str) -> datetime | None:
    """The ISO 8601 time that a text begins with."""
    match = _STAMP.match(text)
    return iso(*match.groups()) if match else None
