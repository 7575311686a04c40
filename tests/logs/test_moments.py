"""Times as people write them, against a log that may have a zone or none."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from triage.common.errors import UsageError
from triage.logs.views.moments import ANY_TIME, Window, moment, window

LAST = datetime(2026, 5, 12, 0, 10, 30)
UTC = timezone.utc


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2026-05-11 14:03:59", datetime(2026, 5, 11, 14, 3, 59)),
        ("2026-05-11T14:03", datetime(2026, 5, 11, 14, 3)),
        ("2026-05-11 14:03:59,250", datetime(2026, 5, 11, 14, 3, 59, 250_000)),
        ("2026-05-11", datetime(2026, 5, 11)),
        ("05-11 14:03:59", datetime(2026, 5, 11, 14, 3, 59)),
        ("May 11 14:03:59", datetime(2026, 5, 11, 14, 3, 59)),
        ("May  1 14:03", datetime(2026, 5, 1, 14, 3)),
        ("00:05", datetime(2026, 5, 12, 0, 5)),
        ("-30s", LAST - timedelta(seconds=30)),
        ("-10min", LAST - timedelta(minutes=10)),
        ("-2hours", LAST - timedelta(hours=2)),
        ("-1d", LAST - timedelta(days=1)),
    ],
)
def test_a_time(text: str, wanted: datetime):
    assert moment(text, LAST) == wanted


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "10min", "-10", "-10 parsecs", "2026-13-01", "25:00", "Foo 1 14:03", "02-30 10:00:00"],
)
def test_no_time(text: str):
    with pytest.raises(UsageError, match="this is no time"):
        moment(text, LAST)


def test_a_zone():
    assert moment("2026-05-11T14:03:59+02:00", LAST.replace(tzinfo=UTC)) == datetime(
        2026, 5, 11, 12, 3, 59, tzinfo=UTC
    )
    with pytest.raises(UsageError, match="does not say its zone"):
        moment("2026-05-11T14:03:59Z", LAST)


def test_without_a_zone_it_is_meant_as_the_log_writes_it():
    zone = timezone(timedelta(hours=2))
    inside = window("00:05", "00:06", lambda: LAST.replace(tzinfo=zone))
    assert LAST.replace(minute=5, tzinfo=zone) in inside
    assert LAST.replace(minute=7, tzinfo=zone) not in inside


def test_a_window_has_its_ends_in_it():
    inside = window("-10min", "-1min", lambda: LAST)
    assert LAST - timedelta(minutes=10) in inside
    assert LAST - timedelta(minutes=1) in inside
    assert LAST not in inside
    assert None not in inside
    assert None in ANY_TIME
    assert LAST in Window(until=LAST)


def test_a_clock_time_after_the_end_is_of_the_day_before():
    inside = window("23:50", "", lambda: LAST)
    assert datetime(2026, 5, 11, 23, 55) in inside
    assert datetime(2026, 5, 11, 23, 45) not in inside


def test_the_log_is_not_read_for_an_open_window():
    def read() -> datetime:
        raise AssertionError

    assert window("", "", read) is ANY_TIME
