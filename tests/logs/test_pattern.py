"""Searching with a user's pattern ends, whatever the pattern and the text."""

from __future__ import annotations

import signal

import pytest

from triage.common.errors import UsageError
from triage.logs.reading.line import MATCH_LIMIT
from triage.logs.views.pattern import Pattern


def test_it_searches():
    pattern = Pattern(r"(?i)index\w+: .*range$")
    with pattern.watched():
        assert pattern.found_in("x IndexError: list index out of range")
        assert not pattern.found_in("KeyError: 0")


@pytest.mark.parametrize("text", ["(a", "*", "[z-a]", "(?P<a>x)(?P<a>y)", "a{99999999999}"])
def test_no_pattern(text: str):
    with pytest.raises(UsageError, match="this is no pattern"):
        Pattern(text)


@pytest.mark.parametrize("text", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a*a*a*a*b", r"(a*)*\1b"])
def test_a_pattern_that_would_not_end_is_broken_off(text: str):
    pattern = Pattern(text)
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(UsageError, match="too many ways"), pattern.watched():
        any(map(pattern.found_in, ["a" * 5000] * 100_000))
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_only_the_beginning_of_a_line_is_searched():
    pattern = Pattern("b")
    with pattern.watched():
        assert not pattern.found_in("a" * MATCH_LIMIT + "b")
