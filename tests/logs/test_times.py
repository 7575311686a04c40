from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from triage.logs import read_incidents
from triage.logs.formats.times import iso, offset
from triage.logs.model import LogSource


@pytest.mark.parametrize(
    ("zone", "minutes"),
    [("Z", 0), ("UTC", 0), ("+0200", 120), ("+02:00", 120), ("-02:30", -150), ("+02", 120), ("+9999", 219)],
)
def test_a_zone_is_an_offset(zone: str, minutes: int):
    found = offset(zone)
    assert found is not None
    assert found.utcoffset(None) == timedelta(minutes=minutes)


@pytest.mark.parametrize("zone", ["CEST", "ZFOO", "Z+0200", "+", "+2", "-02:0", "+٠٢٠٠", "+02000"])
def test_what_is_none_leaves_the_time_without(zone: str):
    time = iso("2026-05-12", "14:03:51", "5", zone)
    assert time is not None
    assert time.tzinfo is None


def test_a_log_with_such_a_zone_is_read():
    log = b"2026-05-12 14:03:51 ZFOO host python[7]: Traceback (most recent call last):\n"
    (found,) = read_incidents([LogSource("log", log)])
    assert found.started == datetime(2026, 5, 12, 14, 3, 51)
