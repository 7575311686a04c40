from __future__ import annotations

from typing import Any

import pytest

from triage.common.errors import UsageError
from triage.verify.load.loads import loads_of
from triage.verify.options import Options


def asked(requests: int = 8, difference: float = 5.0, **given: Any) -> Options:
    return loads_of(given, "triage verify --help", requests=requests, difference=difference)


@pytest.mark.parametrize(("text", "levels"), [("4", (4,)), ("1,32, 8", (1, 8, 32)), ("256", (256,))])
def test_streams_are_a_number_or_a_sweep(text: str, levels: tuple[int, ...]):
    assert asked(concurrency=text).sweep == levels
    assert asked().sweep == (4,)


@pytest.mark.parametrize("text", ["", "0", "257", "4,", "4,4", "a", "-1", "1e2", "1.5", "\u0664"])
def test_other_streams_are_refused(text: str):
    with pytest.raises(UsageError, match="whole numbers of 1 to 256"):
        asked(concurrency=text)


def test_rates_take_the_place_of_streams():
    options = asked(rate="8,0.5, 2", arrivals="constant")
    assert (options.rates, options.arrivals) == ((0.5, 2.0, 8.0), "constant")
    assert options.load_timeout == 4 * 150
    assert asked(rate="0.1").load_timeout == 150 + 4 * 8 / 0.1  # three repeats fit
    with pytest.raises(UsageError, match="one takes the place of the other"):
        asked(rate="8", concurrency="4")


@pytest.mark.parametrize("text", ["0", "501", "2,2", "-1", "1e9", "nan", "2,", "1.2.3"])
def test_other_rates_are_refused(text: str):
    with pytest.raises(UsageError, match=r"numbers of 0\.01 to 500"):
        asked(rate=text)


def test_lengths_are_a_number_or_two():
    options = asked(prompt_tokens="32-512", max_tokens="16 - 64")
    assert (options.prompts, options.outputs) == ((32, 512), (16, 64))
    assert (asked().prompts, asked().outputs) == ((64, 64), (32, 32))


@pytest.mark.parametrize("text", ["", "0", "1", "64-32", "2-", "-2", "2-3-4", "1000000", "a"])
def test_other_lengths_are_refused(text: str):
    with pytest.raises(UsageError, match="max_tokens"):
        asked(max_tokens=text)


def test_repeats_have_a_least_and_a_most():
    for text, least, most in (("3", 3, 20), ("2-5", 2, 5), ("4-4", 4, 4), ("50", 50, 50)):
        options = asked(repeats=text)
        assert (options.repeats, options.most_repeats) == (least, most)


def test_what_is_told_and_of_which_interface():
    options = asked(difference=2.0, api="generate")
    assert (options.difference, options.api) == (0.02, "generate")
    assert (asked().difference, asked().api) == (0.05, None)
