"""Exports, used: by patch and git, by a shell as a Dockerfile's RUN would, as a task of Ansible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.patching.test_target import FIRST, FORWARD, SECOND, a_patch, target
from tests.patching.trees import BACKEND, BACKEND_SOURCE, install, module_path
from triage.common.errors import RefusedError
from triage.patching import transaction
from triage.patching.export import Kind, exported, render
from triage.patching.model import PlanState
from triage.patching.schema import Patch
from triage.patching.target import apply_all, survey

# Jinja, YAML, shell and Python would each like to read something else in it.
ODD = "'{{ x }}' + \"{% raw %} `id` 'TRIAGE' \\\\n \\u00e9: #\""
ODD_PATCH = a_patch("odd", FORWARD, f"({FORWARD}, {ODD})")
KINDS: tuple[Kind, ...] = ("diff", "dockerfile", "ansible")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Another machine with the same package, and old bytecode."""
    place = install(tmp_path / "elsewhere")
    path = module_path(place, BACKEND)
    path.chmod(0o640)
    (path.parent / "__pycache__").mkdir()
    (path.parent / "__pycache__" / "triton_backend.cpython-311.pyc").write_bytes(b"old")
    return place


def export(root: Path, kind: Kind, *patches: Patch) -> bytes:
    there = target(root, *patches)
    return render(exported(there.tree, survey(there)), kind)


def wanted(root: Path, *patches: Patch) -> bytes:
    return survey(target(root, *patches))[-1][1].edits[0].after


def use(kind: Kind, text: bytes, place: Path) -> subprocess.CompletedProcess[str]:
    """Do with an export what one does with it."""
    environment = {**os.environ, "PYTHONPATH": str(place)}
    if kind == "diff":
        (place / "DIFF").write_bytes(text)
        command = text.decode().splitlines()[1]
        return shell(["sh", "-c", command], place, environment)
    # -I keeps PYTHONPATH away from the interpreter of a test, which has no such package.
    if kind == "dockerfile":
        lines = [line for line in text.decode().splitlines(keepends=True) if not line.startswith("#")]
        run = "".join(lines).replace("RUN python3 -I", f"{sys.executable}", 1)
        return shell(["sh", "-c", run], place, environment)
    (task,) = yaml.load(text, Loader=Loader)
    command = task["ansible.builtin.command"]
    assert command["argv"][1:] == ["-I", "-"]
    return shell([sys.executable, "-"], place, environment, command["stdin"])


class Loader(yaml.SafeLoader):
    """As Ansible: `!unsafe` is text that is no template."""


Loader.add_constructor("!unsafe", lambda loader, node: str(node.value))


def shell(
    argv: list[str], place: Path, environment: dict[str, str], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, cwd=place, env=environment, input=stdin, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("patches", [(FIRST,), (FIRST, SECOND), (ODD_PATCH,)], ids=["one", "two", "odd"])
def test_what_is_exported_makes_the_same_change(
    root: Path, elsewhere: Path, kind: Kind, patches: tuple[Patch, ...]
) -> None:
    path = module_path(elsewhere, BACKEND)
    done = use(kind, export(root, kind, *patches), elsewhere)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == wanted(root, *patches)
    assert path.stat().st_mode & 0o777 == 0o640
    if kind != "diff":
        assert done.stdout == f"changed: {path}\n"
        assert not list(path.parent.glob("__pycache__/triton*"))


@pytest.mark.parametrize("kind", KINDS)
def test_another_file_is_not_touched(root: Path, elsewhere: Path, kind: Kind) -> None:
    path = module_path(elsewhere, BACKEND)
    path.write_text(BACKEND_SOURCE.replace("# the width", "# a width"))
    done = use(kind, export(root, kind, FIRST), elsewhere)
    assert done.returncode != 0
    assert path.read_text() == BACKEND_SOURCE.replace("# the width", "# a width")


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_time_says_so(root: Path, elsewhere: Path, kind: Kind) -> None:
    path = module_path(elsewhere, BACKEND)
    use(kind, export(root, kind, FIRST), elsewhere)
    done = use(kind, export(root, kind, FIRST), elsewhere)
    assert path.read_bytes() == wanted(root, FIRST)
    if kind == "diff":
        assert done.returncode != 0
    else:
        assert (done.returncode, done.stdout) == (0, f"there already: {path}\n")


@pytest.mark.parametrize("kind", KINDS)
def test_a_hard_link_into_a_cache_is_not_written_through(root: Path, elsewhere: Path, kind: Kind) -> None:
    path, cached = module_path(elsewhere, BACKEND), elsewhere / "cached"
    cached.hardlink_to(path)
    if kind != "diff":  # patch itself may write in place
        assert use(kind, export(root, kind, FIRST), elsewhere).returncode == 0
        assert cached.read_text() == BACKEND_SOURCE


@pytest.mark.parametrize("tail", [b"", b"\r\n", b"x = 1"], ids=["as it is", "CR LF", "no last line end"])
def test_git_applies_the_diff(root: Path, elsewhere: Path, tail: bytes) -> None:
    for place in (root, elsewhere):
        with module_path(place, BACKEND).open("ab") as file:
            file.write(tail)
    (elsewhere / "DIFF").write_bytes(export(root, "diff", FIRST))
    subprocess.run(["git", "apply", "DIFF"], cwd=elsewhere, check=True, timeout=20)
    assert module_path(elsewhere, BACKEND).read_bytes() == wanted(root, FIRST)


def test_what_was_applied_is_exported_from_the_record(root: Path, elsewhere: Path) -> None:
    both = target(root, FIRST, SECOND)
    before = {kind: export(root, kind, FIRST, SECOND) for kind in KINDS}
    apply_all(both, survey(both))
    assert [plan.state for _, plan in survey(both)] == [PlanState.APPLIED, PlanState.APPLIED]
    assert {kind: export(root, kind, FIRST, SECOND) for kind in KINDS} == before

    with pytest.raises(RefusedError, match="not as the change left it"):  # another one is on top of it
        export(root, "diff", FIRST)
    last = transaction.status(both.tree)[-1]
    transaction.rollback(both.tree, last.id)
    assert export(root, "diff", FIRST, SECOND) == before["diff"]  # one made, one still to make


def test_there_is_nothing_to_export(root: Path) -> None:
    install(root, triton_backend="x = 1\n")
    with pytest.raises(RefusedError, match="not-affected"):
        export(root, "diff", FIRST)


@pytest.mark.skipif(shutil.which("ansible-playbook") is None, reason="ansible-playbook is not installed")
def test_ansible_runs_the_task(root: Path, elsewhere: Path) -> None:
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": ["TASK"]}]
    task = "".join(f"    {line}" for line in export(root, "ansible", ODD_PATCH).decode().splitlines(True))
    text = yaml.safe_dump(play).replace("  - TASK\n", task)
    interpreter = elsewhere / "python"
    interpreter.write_text(f'#!/bin/sh\nshift\nPYTHONPATH={elsewhere} exec {sys.executable} "$@"\n')
    interpreter.chmod(0o755)
    (elsewhere / "play.yaml").write_text(text)
    argv = ["ansible-playbook", "-e", f"triage_python={interpreter}", "play.yaml"]
    for changed in ("changed=1", "changed=0"):
        done = subprocess.run(argv, cwd=elsewhere, capture_output=True, text=True, timeout=120)
        assert (done.returncode, changed in done.stdout) == (0, True), done.stdout + done.stderr
        assert module_path(elsewhere, BACKEND).read_bytes() == wanted(root, ODD_PATCH)
