"""A run that was interrupted is gone on with, and does nothing twice."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from tests.playbook.hosts import Host, statuses
from tests.playbook.test_runner import CHANGE
from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.playbook.model import ActionResult
from triage.playbook.progress import Progress
from triage.playbook.runner import run


@pytest.fixture
def progress(playbook, tmp_path: Path):
    return Progress(playbook(CHANGE), "gpu01", {}, tmp_path / "new")


def test_it_goes_on_after_the_last_step_that_was_done(playbook, progress):
    host = Host(diagnose={"id": "seen"}, patch={"id": "changed"}, verify=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt), progress.held():
        host.run(playbook(CHANGE), keep=progress.write)
    assert stat.S_IMODE(progress.path.stat().st_mode) == 0o600

    again = Host(verify={"verdict": "same"})
    with progress.held():
        result = again.run(playbook(CHANGE), earlier=progress.read(), keep=progress.write)
    assert again.verbs == ["verify", "diagnose"]
    assert statuses(result) == dict.fromkeys(("look", "change", "prove", "after"), "done")
    assert not progress.path.exists()


def test_what_was_registered_is_known_again(playbook, progress):
    steps = """
    - {name: look, do: diagnose, register: seen}
    - {name: change, do: patch, with: {id: "{{ seen.id }}"}}
    """
    with pytest.raises(KeyboardInterrupt):
        Host(diagnose={"id": "p"}, patch=KeyboardInterrupt()).run(playbook(steps), keep=progress.write)
    again = Host()
    again.run(playbook(steps), earlier=progress.read())
    assert again.calls == [("patch", {"id": "p"})]


def test_a_run_that_came_to_its_end_leaves_nothing(playbook, progress):
    with progress.held():
        Host().run(playbook(CHANGE), keep=progress.write, consent=lambda asked: False)
    with pytest.raises(UsageError, match="no run of it was interrupted"):
        progress.read()


def test_other_steps_or_variables_are_another_run(playbook, progress, tmp_path: Path):
    progress.write(())
    other = Progress(playbook(CHANGE), "gpu01", {"unit": "x"}, tmp_path / "new")
    with pytest.raises(UsageError, match="other steps or variables"):
        other.read()


@pytest.mark.parametrize("content", [b"", b"[]", b"[" * 99_999, b'{"schema": "triage.progress/1"}', b"\xff"])
def test_what_is_none_of_ours_is_said(progress, content: bytes):
    progress.write(())
    progress.path.write_bytes(content)
    with pytest.raises(UsageError, match="none of ours"):
        progress.read()


def test_how_to_go_on_is_the_command_that_was_given(playbook, tmp_path: Path, capsys):
    progress = Progress(
        playbook(CHANGE), "gpu01", {}, tmp_path, again="triage run ./mine.yaml gpu01 --var id=x"
    )
    progress.write(())
    with pytest.raises(KeyboardInterrupt), progress.held():
        raise KeyboardInterrupt
    said = "interrupted; to go on: triage run ./mine.yaml gpu01 --var id=x --resume\n"
    assert capsys.readouterr().err == said


def test_nothing_is_begun_where_it_cannot_be_kept(playbook, tmp_path: Path):
    (tmp_path / "file").touch()
    progress = Progress(playbook(CHANGE), "gpu01", {}, tmp_path / "file")
    host = Host()
    with pytest.raises(UnreachableError, match="writing"):
        host.run(playbook(CHANGE), keep=progress.write)
    assert host.calls == []


def test_two_runs_of_it_on_a_host_do_not_meet(playbook, progress, tmp_path: Path):
    other = Progress(playbook(CHANGE), "gpu01", {"unit": "x"}, tmp_path / "new")
    with progress.held():
        with pytest.raises(RefusedError, match="another run of it is at work"), other.held():
            pass
        with Progress(playbook(CHANGE), "gpu02", {}, tmp_path / "new").held():
            pass
    with other.held():
        pass


def test_where_the_state_cannot_be_it_is_said(playbook, tmp_path: Path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(UnreachableError, match="writing"),
        Progress(playbook(CHANGE), "gpu01", {}, tmp_path / "file").held(),
    ):
        pass


CUTS = [(step, at) for step in ("One", "Two", "Three", "Four") for at in ("before", "after")]


@pytest.mark.parametrize(("step", "at"), CUTS)
def test_a_run_that_is_killed_at_any_step_is_gone_on_with_there(playbook, tmp_path: Path, step: str, at: str):
    """By SIGKILL, before or after what it does: no step that was done is done again, none is left out."""
    names = ("One", "Two", "Three", "Four")
    steps = "".join(f"\n- {{name: {name}, do: capture, with: {{output: {name}}}}}" for name in names)
    mine = playbook(steps)
    progress = Progress(mine, "gpu01", {}, tmp_path / "runs")
    log = tmp_path / "log"

    def run_it(earlier, cut: bool) -> str:
        def capture(host, arguments):
            here = cut and arguments["output"] == step
            if here and at == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            with log.open("a") as file:
                file.write(f"{arguments['output']}\n")
            if here:
                os.kill(os.getpid(), signal.SIGKILL)
            return ActionResult(True, {}, "")

        with progress.held():
            actions = {"capture": capture}
            done = run(mine, "gpu01", {}, actions, consent=bool, earlier=earlier, keep=progress.write)
        return done.status

    killed = os.fork()
    if not killed:
        run_it((), cut=True)
        os._exit(0)
    assert os.waitpid(killed, 0)[1] == signal.SIGKILL
    assert run_it(progress.read(), cut=False) == "done"
    done = log.read_text().split()
    assert sorted(set(done), key=names.index) == list(names)
    assert [name for name in names if done.count(name) > 1] == ([step] if at == "after" else [])
    assert not progress.path.exists()
