"""`triage run`: the command line around a playbook. The actions are fakes: they are its seam."""

from __future__ import annotations

import contextlib
import json
import sys
import types

import pytest
import typer
from typer.testing import CliRunner

from tests.playbook.hosts import Host, failed
from triage.cli import console
from triage.cli.run import run
from triage.common.errors import TriageError, UsageError

PLAYBOOK = """
name: mine
description: a test
vars: {id: null}
steps:
  - {name: Look, do: diagnose, register: seen}
  - {name: Change, do: patch, with: {id: "{{ id }}"}, consent: true}
  - {name: Prove, do: verify}
"""
app = typer.Typer()
app.command()(run)


@pytest.fixture
def triage_run(tmp_path, monkeypatch):
    """Runs the command against a fake host; `opened` of the host holds what the actions were opened with."""
    (tmp_path / "mine.yaml").write_text(PLAYBOOK)

    def invoke(host, *arguments):
        @contextlib.contextmanager
        def open_actions(*given):
            host.opened = given
            verbs = ("diagnose", "patch", "verify", "rollback", "capture")
            yield {verb: host.action(verb) for verb in verbs}, lambda asked: " 3 running requests there now"

        module = types.ModuleType("triage.cli.actions")
        module.open_actions = open_actions
        monkeypatch.setitem(sys.modules, "triage.cli.actions", module)
        return CliRunner().invoke(app, [str(tmp_path / "mine.yaml"), "gpu01", *arguments])

    return invoke


def test_it_runs_what_is_agreed_to(triage_run):
    host = Host()
    result = triage_run(host, "--var", "id=p", "--yes", "--become")
    assert result.exit_code == 0
    assert host.calls == [("diagnose", {}), ("patch", {"id": "p"}), ("verify", {})]
    reach, reached = host.opened
    assert reached.name == "gpu01"
    assert reach.become is True
    assert result.stdout.splitlines()[-1] == "mine on gpu01: done"


def test_where_nobody_can_be_asked_the_answer_is_no(triage_run):
    host = Host()
    result = triage_run(host, "--var", "id=p")
    assert result.exit_code == 4
    assert host.verbs == ["diagnose"]
    assert "--yes" in result.stderr


def test_who_is_asked_is_told_what_runs_there(triage_run, monkeypatch):
    asked = []
    monkeypatch.setattr(console, "agreed", lambda question, yes: asked.append(question))
    triage_run(Host(), "--var", "id=p")
    assert asked == ['Change: patch id="p" on gpu01? 3 running requests there now']


def test_a_failure_has_its_exit_code(triage_run):
    assert triage_run(Host(verify=failed("slow")), "--var", "id=p", "--yes").exit_code == 1


def test_json_stands_alone_on_stdout(triage_run):
    result = triage_run(Host(diagnose={"name": "\x1b[31m"}), "--var", "id=p", "--yes", "--format", "json")
    value = json.loads(result.stdout)
    assert value["schema"] == "triage.run/1"
    assert value["steps"][0]["data"] == {"name": "\x1b[31m"}
    assert "\x1b" not in result.stdout
    assert result.stderr == ""  # progress is for a terminal


@pytest.mark.parametrize("format", ["text", "json"])
def test_check_does_nothing(triage_run, format):
    host = Host()
    result = triage_run(host, "--var", "id=p", "--check", "--format", format)
    assert result.exit_code == 0
    assert host.calls == []
    assert not hasattr(host, "opened")
    if format == "json":
        assert [step["name"] for step in json.loads(result.stdout)["steps"]] == ["Look", "Change", "Prove"]
    else:
        assert "asks for consent" in result.stdout


@pytest.mark.parametrize("arguments", [(), ("--var", "id"), ("--var", "id=p", "--var", "x=y")])
def test_wrong_variables_are_an_error_before_anything_is_opened(triage_run, arguments):
    host = Host()
    result = triage_run(host, *arguments)
    assert isinstance(result.exception, UsageError)
    assert not hasattr(host, "opened")


def test_an_unknown_playbook_is_an_error():
    result = CliRunner().invoke(app, ["none-such", "gpu01"])
    assert isinstance(result.exception, TriageError)
    assert "pp8-bringup" in str(result.exception)
