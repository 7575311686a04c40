"""The arguments of the verbs are those of the commands, and the documentation lists them."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from pathlib import Path

import pytest

from triage.cli.bench import bench
from triage.playbook.arguments import ARGUMENTS, wrong_value
from triage.playbook.load import load_playbook, shipped_playbooks
from triage.playbook.templates import FILTERS, LISTING
from triage.verify.load.loads import FORMS
from triage.workflows.verify import Options

DOCUMENT = (Path(__file__).parents[2] / "docs" / "playbooks.md").read_text()
KINDS = {"bool": "true or false", "float": "number", "int": "whole number"}


EXAMPLE = textwrap.dedent(
    re.search(r"^    name: patch-one\n(?:(?:    .*)?\n)+", DOCUMENT, re.MULTILINE).group()
)


def test_those_of_verify_are_its_options():
    options = {field.name: str(field.type) for field in dataclasses.fields(Options)}
    arguments = {name: each.kind for name, each in ARGUMENTS["verify"].items() if each.form is None}
    assert (arguments.pop("unit"), arguments.pop("api_key_env")) == ("text", "text")
    assert arguments == {name: KINDS[options[name]] for name in arguments}


def test_loads_are_written_as_for_the_commands():
    parameters = inspect.signature(bench).parameters
    for verb in ("verify", "bench"):
        arguments = ARGUMENTS[verb]
        assert {name: each.form for name, each in arguments.items() if each.form} == FORMS
        assert {*FORMS, "requests", "difference", "api_key_env"} <= arguments.keys() & parameters.keys()


@pytest.mark.parametrize(
    ("name", "value", "good"),
    [
        ("concurrency", 4, True),
        ("concurrency", "8,32", True),
        ("concurrency", "", True),
        ("concurrency", 4.0, False),
        ("concurrency", True, False),
        ("concurrency", ["4"], False),
        ("rate", 0.5, True),
        ("rate", "0.5,2", True),
        ("prompt_tokens", "32-512", True),
        ("prompt_tokens", "512-32", False),
        ("api", "generate", True),
    ],
)
def test_a_load_is_a_number_or_a_text(name: str, value: object, good: bool):
    assert (wrong_value("bench", name, value) == "") == good


def test_the_documentation_has_every_argument():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.+?) \| (.+?) \|$", DOCUMENT, re.MULTILINE)
    there = {
        (verb, name, str(argument) + ", required" * argument.required, argument.meaning)
        for verb, arguments in ARGUMENTS.items()
        for name, argument in arguments.items()
    }
    assert set(rows) == there


def test_the_documentation_has_every_filter():
    listed = DOCUMENT.partition("and the filters")[2].partition("There are no statements")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == {*FILTERS, *LISTING}


def test_the_documentation_has_every_shipped_playbook_with_its_variables():
    rows = re.findall(r"^\| `([\w-]+)` \| [^|]+ \| ([^|]+) \|$", DOCUMENT, re.MULTILINE)
    found = {
        name: re.findall(r"`(\w+)`", variables) for name, variables in rows if name in shipped_playbooks()
    }
    assert found == {name: list(load_playbook(name).vars) for name in shipped_playbooks()}


def test_the_example_of_the_documentation_is_a_playbook(tmp_path):
    path = tmp_path / "patch-one.yaml"
    path.write_text(EXAMPLE)
    assert [step.do for step in load_playbook(str(path)).steps] == ["diagnose", "stop", "patch", "verify"]
