"""`triage verify` that is cut says what became of the service. How it verifies is for tests/verify."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.test_compare import figures, result
from triage.cli.verify import interrupted
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.events import Event, Restarting, ServiceStarted
from triage.verify.service import exclusion
from triage.workflows import verify as workflow
from triage.workflows.diagnose import load_knowledge
from triage.workflows.verify import Options
from triage.workflows.verify_unit import verify_unit

Cut = Callable[..., None]
RESTARTING, STARTED = Restarting("kimi.service"), ServiceStarted("i", 4711, 1)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cut:
    """`cut(error, events...)`: a verification that tells these events, and then ends so."""

    def cut(error: BaseException, *events: Event) -> None:
        def verified(connection: object, deployment: object, options: object, on_event: object) -> None:
            for event in events:
                on_event(event)  # type: ignore[operator]
            raise error

        monkeypatch.setattr(workflow, "verify", verified)
        monkeypatch.setattr(exclusion, "DIRECTORY", str(tmp_path))
        monkeypatch.setattr(exclusion, "WAIT", 0.2)
        monkeypatch.setattr("triage.workflows.verify_unit.discover", lambda *_: (Deployment("kimi"),))
        verify_unit(LocalConnection(), "", Options(), load_knowledge, on_interrupt=interrupted("local"))

    return cut


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((), "the service was not restarted"),
        ((RESTARTING,), "kimi.service was to be restarted, and no new start was seen yet"),
        ((RESTARTING, STARTED), "the service was restarted (pid 4711), and goes on by itself"),
    ],
)
def test_a_cut_says_whether_the_service_was_restarted(cut: Cut, capsys, events, said: str):
    with pytest.raises(KeyboardInterrupt):
        cut(KeyboardInterrupt(), *events)
    assert capsys.readouterr().err == f"interrupted; {said}. Next: triage verify local --no-restart\n"
    with pytest.raises(UnreachableError) as found:
        cut(UnreachableError("asking", "it", "the connection is lost", "x"), *events)
    assert str(found.value) == f"asking it: the connection is lost; {said}"


def test_a_refusal_speaks_for_itself(cut: Cut):
    with pytest.raises(RefusedError) as found:
        cut(RefusedError("restart", "it", "no right to", "x"), RESTARTING)
    assert str(found.value) == "restart it: no right to"


def test_what_is_odd_about_the_deployment_is_a_note(monkeypatch, tmp_path: Path):
    """As that its command is one that a bench left."""
    found = Deployment("kimi", disagreements=("kimi.service has the command of a layout",))
    monkeypatch.setattr(workflow, "verify", lambda *_: result(figures(20, 80)))
    monkeypatch.setattr(exclusion, "DIRECTORY", str(tmp_path))
    monkeypatch.setattr("triage.workflows.verify_unit.discover", lambda *_: (found,))
    verified = verify_unit(LocalConnection(), "", Options(), load_knowledge)
    assert (verified.verification.notes, verified.diagnosis) == (found.disagreements, None)


def test_while_somebody_else_verifies_it_nothing_is_done(cut: Cut, tmp_path: Path):
    def verify_it() -> None:
        cut(AssertionError("it was verified"))

    with pytest.raises(AssertionError):
        verify_it()
    with (
        exclusion.alone(LocalConnection(), Deployment("kimi")),
        pytest.raises(RefusedError, match="two at once disturb each other"),
    ):
        verify_it()
