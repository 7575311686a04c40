"""What the next command takes over from the one that names it."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from tests.cli.command import triage
from tests.patching.trees import BACKEND, install, module_path
from triage.cli import next_command
from triage.cli.app import app
from triage.common.commands import command

ID = "sglang-triton-value-head-dim"
CONNECTION = ("-F", "my config", "--host-key", "accept-new")
SPELLED = "--ssh-config 'my config' --host-key accept-new"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "my config").write_text("")
    return install(tmp_path / "site-packages")


def test_an_error_names_a_command_that_reaches_the_same_host(root: Path) -> None:
    words = ("patch", "rollback", "local", "--ledger", "ledger", "--yes")
    done = triage(*words, *CONNECTION, cwd=root.parent)
    assert done.returncode == 2
    assert done.stderr.endswith(f"Next: triage patch status local {SPELLED}\n")
    assert triage(*words, cwd=root.parent).stderr.endswith("Next: triage patch status local\n")


def test_what_was_given_to_the_plan_is_given_to_the_change(root: Path) -> None:
    words = ["--package-root", f"{root}/sglang", "--python", sys.executable]
    words += ["--given", "pool_class=MLATokenToKVPool", "--ledger", f"{root.parent}/ledger"]
    done = triage("patch", "local", "--id", ID, *words, *CONNECTION, cwd=root.parent)
    assert done.returncode == 0, done.stderr
    command = done.stdout.splitlines()[-1].partition("next: triage ")[2]
    assert command.startswith("patch local ")
    for word in (*words, SPELLED, f"--id {ID}", "--apply"):
        assert word in command
    made = triage(*shlex.split(command), "--yes", cwd=root.parent)
    assert made.returncode == 0, made.stderr
    assert "start_layer" in module_path(root, BACKEND).read_text()


def test_a_remedy_reaches_the_same_host(tmp_path: Path) -> None:
    """From a real diagnosis of this machine, with the log of a crash of the story."""
    log = Path("tests/corpus/sglang-0.5.11-pp8-triton/log").resolve()
    (tmp_path / "my config").write_text("")
    document = json.loads(
        triage("diagnose", "local", "--log", str(log), "--format", "json", *CONNECTION, cwd=tmp_path).stdout
    )
    remedies = [item for each in document["incidents"][-1]["diagnoses"] for item in each["remedies"]]
    commands = [item["command"] for item in remedies if item["command"].startswith("triage ")]
    assert commands
    assert all(command.startswith(f"triage patch local {SPELLED} ") for command in commands)


def test_without_a_command_nothing_is_taken_over() -> None:
    assert next_command.given(*next_command.CONNECTION) == []
    assert next_command.reaching(command("diagnose", "gpu01")) == command("diagnose", "gpu01")


def options(command: TyperGroup | TyperCommand, *names: str) -> Iterator[tuple[str, set[str]]]:
    """The options of every command, by its words."""
    if isinstance(command, TyperGroup):
        for name, each in command.commands.items():
            yield from options(each, *names, name)
    else:
        yield " ".join(names), {option for parameter in command.params for option in parameter.opts}


def test_every_command_that_reaches_a_host_takes_an_inventory() -> None:
    reaching = {name: given for name, given in options(get_command(app)) if "--host-key" in given}
    assert {"diagnose", "verify", "patch show", "patch rollback", "scan", "run"} <= set(reaching)
    assert [name for name, given in reaching.items() if not {"--inventory", "-i"} <= given] == []
    assert [name for name, given in reaching.items() if not {"--become", "-b", "-F"} <= given] == []


def test_a_deployment_of_the_inventory_names_host_and_unit(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text(
        "hosts: {local: }\ndeployments: {chat: {hosts: [local], unit: no-such.service}}\n"
    )
    for words in (("verify", "chat", "--no-restart"), ("capture", "chat", "-o", "case"), ("patch", "chat")):
        done = triage(*words, "-i", "hosts.yaml", cwd=tmp_path)
        assert "no-such.service on local" in done.stderr, done.stderr
