"""A rule drafted from an incident: it loads, matches its own log, and holds nobody's name."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from triage.common.errors import UsageError
from triage.common.patterns import backtracking
from triage.logs.model import LogSource
from triage.rules.authoring.check import fired
from triage.rules.authoring.draft import draft, generalised
from triage.rules.schema import Rule
from triage.workflows import diagnose
from triage.workflows.replay import logs_of

CORPUS = Path(__file__).parents[1] / "corpus"
KNOWLEDGE = diagnose.load_knowledge()
NOTHING = replace(KNOWLEDGE, rules=())
LOG = """\
Traceback (most recent call last):
  File "/home/alice/app/sglang/srt/models/zebra.py", line 7, in stripes
    raise ValueError(text)
ValueError: 7 stripes at /home/alice/z/stripes.bin, token=hf_abcdefghijklmnopqrst0 (0x7f00)
"""


@pytest.mark.parametrize(
    "case",
    [
        "sglang-0.5.11-pp8-triton",
        "sglang-0.5.11-pp8-triton-interleaved",
        "sglang-0.5.10-pp4-triton-json",
        "sglang-0.5.11-pp8-triton-live-journal",
        "vllm-0.32-port-in-use",
        "device-side-assert",
        "argparse-unrecognized",
        "journalctl-reversed",
        "dmesg-alone",
    ],
)
def test_from_a_case(case):
    made = draft("my-draft", logs_of(CORPUS / case), NOTHING)
    rule = Rule.model_validate(yaml.safe_load(made.text))
    known = replace(NOTHING, rules=(rule,))
    assert fired(rule.cases.match[0].log, known) == ("my-draft",)
    assert fired(rule.cases.near[0].log, known) == ()
    assert made.notes == ()


def test_what_differs_from_run_to_run_is_left_open():
    rule = draft("my-draft", [LogSource("log", LOG.encode())], NOTHING).rule
    other = LOG.replace("7 stripes", "12 stripes").replace("alice/z/stripes.bin", "bob/y/w.bin")
    other = other.replace("0x7f00", "0xdead").replace("line 7", "line 9")
    known = replace(NOTHING, rules=(rule,))
    assert fired(other, known) == ("my-draft",)
    assert fired(other.replace("stripes at", "spots at"), known) == ()
    assert fired(other.replace("zebra.py", "horse.py"), known) == ()


def test_people_and_secrets_are_replaced():
    made = draft("my-draft", [LogSource("log", LOG.encode())], NOTHING)
    assert "alice" not in made.text
    assert "hf_abcdef" not in made.text


def test_what_a_person_must_write_is_marked():
    made = draft("my-draft", [LogSource("log", LOG.encode())], NOTHING)
    assert made.rule.title.startswith("TO BE WRITTEN")
    assert made.rule.explanation.startswith("TO BE WRITTEN")
    assert made.rule.category == "unknown"


def test_another_rule_that_fits_is_named():
    made = draft("my-draft", logs_of(CORPUS / "vllm-0.32-port-in-use"), KNOWLEDGE)
    assert made.notes == ("http-port-in-use matches its case as well",)


@pytest.mark.parametrize(
    ("id", "log", "says"),
    [
        ("my-draft", "all is well\n", "no incident"),
        ("http-port-in-use", LOG, "there is a rule of that id"),
    ],
)
def test_what_cannot_be_drafted(id, log, says):
    with pytest.raises(UsageError, match=says) as caught:
        draft(id, [LogSource("log", log.encode())], KNOWLEDGE)
    assert caught.value.next


@pytest.mark.parametrize(
    ("message", "other"),
    [
        ("got 7.5 of 1,024 (a+b)", "got 3 of 2 (a+b)"),
        ("cannot open /srv/a/b.bin", "cannot open /data/c"),
        ("at 0x7f01 [x]", "at 0xff [x]"),
        ("see https://a.b/c?d=1", "see http://e"),
        ("", "anything"),
    ],
)
def test_generalised(message, other):
    pattern = generalised(message)
    assert re.search(pattern, message)
    assert re.search(pattern, other)
    assert backtracking(pattern) == ""


def test_generalised_keeps_the_words():
    assert generalised("rank 3 is dead\nsecond line") == r"^rank [\d.,]{1,30} is dead"
