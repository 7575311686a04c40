"""The schema for editors says what the loader says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.playbook.test_arguments import EXAMPLE
from triage.playbook.editor import schema
from triage.playbook.load import shipped_playbooks

VALIDATOR = Draft202012Validator(schema())
SHIPPED = Path(__file__).parents[2] / "docs" / "playbook.schema.json"


def test_the_file_is_the_schema():
    assert json.loads(SHIPPED.read_text()) == schema(), "make docs"


@pytest.mark.parametrize("path", shipped_playbooks().values(), ids=lambda path: path.stem)
def test_shipped_playbooks_are_valid(path: Path):
    assert not list(VALIDATOR.iter_errors(yaml.safe_load(path.read_text())))


def test_the_example_of_the_documentation_is_valid():
    assert not list(VALIDATOR.iter_errors(yaml.safe_load(EXAMPLE)))


@pytest.mark.parametrize(
    "step",
    [
        {"name": "a", "do": "reboot"},
        {"name": "a", "do": "patch"},
        {"name": "a", "do": "patch", "with": {"id": "p", "ids": "q"}},
        {"name": "a", "do": "patch", "with": {"apply": True}},
        {"name": "a", "do": "verify", "retry": {"count": 99}},
        {"name": "a", "do": "verify", "then": "b"},
    ],
)
def test_what_is_wrong_is_seen(step: dict[str, object]):
    playbook = {"name": "x", "description": "y", "steps": [step]}
    assert list(VALIDATOR.iter_errors(playbook))
