"""The commands' own part: what the texts mean is tested in tests/verify/test_loads.py."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.cli.command import triage
from triage.cli.loads import ApiChoice, ArrivalsChoice, LoadChoice
from triage.common.errors import UsageError
from triage.verify.load.loads import FORMS
from triage.verify.options import Options


@pytest.mark.parametrize("command", [("verify", "gpu01"), ("bench", "gpu01", "--layouts", "tp8")])
def test_what_is_wrong_is_said_with_the_command_at_hand(command: tuple[str, ...]):
    done = triage(*command, "--max-tokens", "64-32")
    assert done.returncode == 2
    told = "reading --max-tokens '64-32': it takes a number of 2 to 100000, or two with a dash between them,"
    assert " ".join(done.stderr.split()) == (
        f"triage: {told} the smaller first. Next: triage {command[0]} --help"
    )


def test_every_form_of_a_load_is_an_option():
    assert {field.name for field in fields(LoadChoice)} == {*FORMS, "difference"}


def test_what_they_take_by_default_is_what_is_done_by_default():
    by_command = LoadChoice().options("verify", 8, "")
    default = Options()
    assert (by_command.prompts, by_command.outputs) == (default.prompts, default.outputs)
    for name in ("requests", "concurrency", "rates", "repeats", "most_repeats", "difference", "load_timeout"):
        assert getattr(by_command, name) == getattr(default, name)


def test_choices_are_the_names_that_are_known():
    for choice, name in ((ArrivalsChoice, "arrivals"), (ApiChoice, "api")):
        for one in choice:
            assert FORMS[name].read(one.value) == one.value
        assert str(FORMS[name]).replace(" or ", ", ").split(", ") == [one.value for one in choice]


def test_a_rate_takes_the_place_of_streams():
    with pytest.raises(UsageError, match="--rate and --concurrency: one takes the place of the other"):
        LoadChoice(rate="8", concurrency="4").options("bench", 8, "")
