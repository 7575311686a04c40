"""Broken rule files: the error names file and key."""

from __future__ import annotations

import pytest

from triage.common.errors import ExitCode, UsageError
from triage.rules.load import load_rules

GOOD = """
id: my-rule
title: a title
category: unknown
role: cause
signature: {exception: ValueError}
explanation: because
cases:
  match: [{log: "x"}]
  near: [{log: "y"}]
"""


def load(tmp_path, text):
    (tmp_path / "rule.yaml").write_text(text)
    return load_rules([tmp_path])


def test_a_rule_of_ones_own(tmp_path):
    assert "my-rule" in {rule.id for rule in load(tmp_path, GOOD)}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("category: unknown", "category: pipeline", "category"),
        ("role: cause", "role: cause\nfix: yes", "fix"),
        ("{exception: ValueError}", "{message: '(a+)+b'}", r"signatures\.0\.message: .*nested quantifiers"),
        ("{exception: ValueError}", "{message: '(?:a|a)*b'}", r"signatures\.0\.message: .*several ways"),
        (
            "{exception: ValueError}",
            "{message: abc, frames: [{code: 'x.*y.*z'}]}",
            r"signatures\.0\.frames\.0\.code: .*unlimited repetitions",
        ),
        ("{exception: ValueError}", "{exception: 'Value(Error'}", "exception: .*not a regular expression"),
        ("{exception: ValueError}", "{engine: sglang}", "signatures.0.engine"),
        ("{exception: ValueError}", "{}", "needs at least one of"),
        ("role: cause", "role: cause\nengine: tgi", "engine: .*no engine 'tgi'; there are sglang, vllm"),
        (
            "explanation: because",
            "explanation: because\nremedies: [{kind: setting, id: a, summary: b, set: {tgi: --x}}]",
            "remedies.0.*no engine 'tgi'; there are sglang, vllm",
        ),
        ("title: a title", "", "title"),
        ("id: my-rule", "id: My Rule", "id"),
        ("id: my-rule", "id: [", "not YAML"),
        ('near: [{log: "y"}]', "near: []", "cases.near"),
        ("explanation: because", "explanation: because\nprobes: [{check: run-a-command}]", "probes.0"),
        (
            "explanation: because",
            "explanation: because\nprobes: [{check: source-matches-frame, frame: site, says: x}]",
            "names frame 'site'",
        ),
    ],
)
def test_a_broken_rule(tmp_path, old, new, says):
    with pytest.raises(UsageError, match=says) as caught:
        load(tmp_path, GOOD.replace(old, new))
    assert str(tmp_path / "rule.yaml") in str(caught.value)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.next


@pytest.mark.parametrize(
    "data", [b"", b"\x00\xff\xfe", b"- 1\n- 2", b"!!python/object/apply:os.system [id]", b"&a [*a]"]
)
def test_what_is_no_rule_at_all(tmp_path, data):
    (tmp_path / "rule.yaml").write_bytes(data)
    with pytest.raises(UsageError, match=r"rule\.yaml"):
        load_rules([tmp_path])


def test_an_id_that_stands_twice(tmp_path):
    (tmp_path / "a.yaml").write_text(GOOD)
    (tmp_path / "b.yaml").write_text(GOOD)
    with pytest.raises(UsageError, match="already that of"):
        load_rules([tmp_path])


def test_no_such_directory(tmp_path):
    with pytest.raises(UsageError, match="no such directory"):
        load_rules([tmp_path / "missing"])
