"""What lint says of rule files: file, key and reason."""

from __future__ import annotations

import pytest

from tests.rules.test_load import GOOD
from triage.common.errors import UsageError
from triage.rules.authoring.lint import lint
from triage.rules.load import KNOWLEDGE
from triage.workflows import diagnose

CLEAN = GOOD.replace(
    "explanation: because", "explanation: because\nremedies: [{kind: action, id: a, summary: do it}]"
)


def problems(directory, patches=()):
    return [(item.file.name, item.key, item.reason) for item in lint([directory], patches)]


def test_the_shipped_rules_have_no_problem():
    knowledge = diagnose.load_knowledge()
    assert [str(item) for item in lint([KNOWLEDGE], (patch.id for patch in knowledge.patches))] == []


def test_a_rule_without_a_problem(tmp_path):
    (tmp_path / "a.yaml").write_text(CLEAN)
    assert problems(tmp_path) == []


@pytest.mark.parametrize(
    ("old", "new", "key", "reason"),
    [
        ("title: a title", "title: a title.", "title", "full stop"),
        ("title: a title", "title: ' '", "title", "empty"),
        ("title: a title", "title: TO BE WRITTEN", "title", "still to be written"),
        ("explanation: because", "explanation: ''", "explanation", "empty"),
        ("explanation: because", "explanation: 'TO BE WRITTEN: why'", "explanation", "still to be written"),
        ("remedies: [{kind: action, id: a, summary: do it}]", "", "remedies", "without a remedy"),
        ("summary: do it", "summary: ''", "remedies.0.summary", "empty"),
        (
            "{kind: action, id: a, summary: do it}",
            "{kind: patch, patch: nope, summary: do it}",
            "remedies.0.patch",
            "no patch nope",
        ),
        ("role: cause", "role: cause\nconclusive: true", "signatures.0", "conclusive without a probe"),
        ("category: unknown", "category: unknown\ntitle: again", "title", "twice"),
        ("{exception: ValueError}", "{exception: A, exception: B}", "signature.exception", "twice"),
        ("role: cause", "role: cause\nfix: yes", "fix", "no such key"),
        ("role: cause", "role: cause\nfix: &a [*a]", "file", "an alias holds itself"),
        ("id: my-rule", "id: [", "file", "not YAML"),
    ],
)
def test_one_problem(tmp_path, old, new, key, reason):
    assert old in CLEAN
    (tmp_path / "a.yaml").write_text(CLEAN.replace(old, new, 1))
    ((file, found, why),) = problems(tmp_path)
    assert (file, found) == ("a.yaml", key)
    assert reason in why


def test_every_file_is_looked_at(tmp_path):
    (tmp_path / "a.yaml").write_text("id: [")
    (tmp_path / "b.yaml").write_text(CLEAN.replace("role: cause", "role: culprit").replace("a title", ""))
    assert [(file, key) for file, key, _ in problems(tmp_path)] == [
        ("a.yaml", "file"),
        ("b.yaml", "title"),
        ("b.yaml", "role"),
    ]


def test_the_same_signature_in_two_rules(tmp_path):
    frames = "{message: out of it, frames: [{as: NAME, file: /a.py}]}"
    first = CLEAN.replace("{exception: ValueError}", frames)
    (tmp_path / "a.yaml").write_text(first.replace("NAME", "one"))
    (tmp_path / "b.yaml").write_text(first.replace("NAME", "two").replace("my-rule", "other"))
    assert problems(tmp_path) == [("b.yaml", "signatures.0", "it is also that of my-rule")]


def test_the_same_signature_of_two_engines_is_no_double(tmp_path):
    (tmp_path / "a.yaml").write_text(f"{CLEAN}engine: vllm\n")
    (tmp_path / "b.yaml").write_text(CLEAN.replace("my-rule", "other") + "engine: sglang\n")
    assert problems(tmp_path) == []


def test_the_same_id_in_two_files(tmp_path):
    (tmp_path / "a.yaml").write_text(CLEAN)
    (tmp_path / "b.yaml").write_text(CLEAN.replace("exception: ValueError", "exception: OtherError"))
    assert [(file, key) for file, key, _ in problems(tmp_path)] == [("b.yaml", "id")]


def test_no_such_directory(tmp_path):
    with pytest.raises(UsageError, match="no such directory"):
        lint([tmp_path / "missing"], ())
