"""Rules that fit in part: what agrees, what differs, and who is near at all."""

from __future__ import annotations

import json

import yaml

from tests.cli.command import triage
from tests.rules.test_load import GOOD
from triage.logs import read_incidents
from triage.logs.model import LogSource
from triage.rules.nearest import nearest
from triage.rules.schema import Rule

LOG = """\
Traceback (most recent call last):
  File "/opt/sglang/srt/models/zebra.py", line 7, in stripes
    raise ValueError(text)
ValueError: the zebra has no stripes
"""
(INCIDENT,) = read_incidents([LogSource("log", LOG.encode())])


def rule(id, signature, more=""):
    text = GOOD.replace("my-rule", id).replace(
        "signature: {exception: ValueError}", f"signature: {signature}"
    )
    return Rule.model_validate(yaml.safe_load(f"{text}{more}"))


def near(*rules, without=()):
    return [(item.rule, item.agrees, item.differs) for item in nearest(INCIDENT, rules, without)]


def test_the_message_agrees_and_the_frame_does_not():
    one = rule(
        "one", "{exception: ^ValueError$, message: no stripes, frames: [{file: /horse.py, function: f}]}"
    )
    expected = ("there is no frame of /horse.py in f",)
    assert near(one) == [("one", ("exception", "message"), expected)]


def test_the_frames_agree_and_the_message_does_not():
    one = rule("one", "{message: spots, frames: [{file: /zebra.py}]}")
    assert near(one) == [("one", ("frames",), ("the message does not match spots",))]


def test_the_frame_agrees_and_its_code_does_not():
    one = rule("one", "{exception: ^ValueError$, frames: [{file: /zebra.py, code: lions}]}")
    expected = ("the frame of /zebra.py is not at lions",)
    assert near(one) == [("one", ("exception", "frames"), expected)]


def test_a_class_that_everybody_raises_is_not_near():
    assert near(rule("one", "{exception: ^ValueError$, message: spots}")) == []


def test_a_pattern_that_says_little_is_not_near():
    assert near(rule("one", r"{exception: ^OtherError$, message: '^\S'}")) == []


def test_frames_in_another_order():
    frames = "[{file: /zebra.py, function: stripes}, {file: '*', function: stripes}]"
    ((_, _, differs),) = near(rule("one", f"{{message: spots, frames: {frames}}}"))
    assert differs == (
        "the message does not match spots",
        "its frames stand in another order, or are not the innermost",
    )


def test_a_fact_that_is_another():
    one = rule("one", "{message: no stripes, facts: {pp_size: '^2$'}}")
    assert near(one) == [("one", ("message",), ("pp_size is not known, it asks for ^2$",))]


def test_the_best_three_in_order():
    rules = [
        rule(f"r{n}", f"{{exception: Other, message: {words}}}")
        for n, words in enumerate(
            (
                "has no stripes",
                "the zebra has",
                "zebra has no stripes",
                "no stripes",
                "the zebra has no stripes",
            )
        )
    ]
    assert [name for name, *_ in near(*rules)] == ["r4", "r2", "r0"]


def test_rules_of_another_engine_and_those_that_were_looked_at_are_left_out():
    rules = [rule("one", "{message: has no stripes, exception: Other}", "engine: vllm\n")]
    assert near(*rules) == []
    assert near(rule("two", "{message: has no stripes, exception: Other}"), without=("two",)) == []


def test_they_are_shown_where_no_rule_stands(tmp_path):
    (tmp_path / "log").write_text(LOG)
    (tmp_path / "rules").mkdir()
    own = GOOD.replace("{exception: ValueError}", "{message: has no stripes, exception: ^OtherError$}")
    (tmp_path / "rules/a.yaml").write_text(own)
    words = ("diagnose", "--log", "log", "--rules", "rules")
    said = triage(*words, cwd=tmp_path).stdout
    assert "near: my-rule, but the exception does not match ^OtherError$" in said
    (incident,) = json.loads(triage(*words, "--format", "json", cwd=tmp_path).stdout)["incidents"]
    assert incident["nearest"][0] == {
        "rule": "my-rule",
        "title": "a title",
        "agrees": ["message"],
        "differs": ["the exception does not match ^OtherError$"],
    }
