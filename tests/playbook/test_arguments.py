"""The arguments of the verbs are those of the commands, and the documentation lists them."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from pathlib import Path

from triage.playbook.arguments import ARGUMENTS
from triage.playbook.load import load_playbook, shipped_playbooks
from triage.playbook.templates import FILTERS, LISTING
from triage.verify.run import Options

DOCUMENT = (Path(__file__).parents[2] / "docs" / "playbooks.md").read_text()
KINDS = {"bool": "true or false", "float": "number", "int": "whole number"}


EXAMPLE = textwrap.dedent(
    re.search(r"^    name: patch-one\n(?:(?:    .*)?\n)+", DOCUMENT, re.MULTILINE).group()
)


def test_those_of_verify_are_its_options():
    options = {field.name: str(field.type) for field in dataclasses.fields(Options)}
    arguments = {name: argument.kind for name, argument in ARGUMENTS["verify"].items()}
    assert (arguments.pop("unit"), arguments.pop("api_key_env")) == ("text", "text")
    assert arguments == {name: KINDS[options[name]] for name in arguments}


def test_those_of_bench_are_options_too():
    arguments = {name: argument.kind for name, argument in ARGUMENTS["bench"].items()}
    verify = {name: argument.kind for name, argument in ARGUMENTS["verify"].items()}
    assert arguments.pop("layouts") == "text"
    assert arguments.items() <= verify.items()


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
