from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.verify.conftest import free_port
from tests.verify.server import FakeServer
from triage.hosts.local import LocalConnection
from triage.verify.events import Died, Event, LogLine, NotYet, PhaseReached, Ready, Restarting, ServiceStarted
from triage.verify.load.client import Client
from triage.verify.service import readiness as module
from triage.verify.service.model import Service, ServiceState
from triage.verify.service.readiness import Readiness, check_running, restart_and_wait


def start(engine, timeout: float = 60, budget: int = 0) -> tuple[Readiness, list[Event]]:
    events: list[Event] = []
    readiness = restart_and_wait(
        engine.service, engine.client, timeout=timeout, restart_budget=budget, on_event=events.append
    )
    return readiness, events


def phases(events: list[Event]) -> list[str]:
    return [event.phase.name for event in events if isinstance(event, PhaseReached)]


def test_ready_after_the_ready_line_and_a_completion(engine):
    readiness, events = start(engine("ready"))
    assert (readiness.start.ready, readiness.start.failure) == (True, "")
    assert phases(events) == [
        "Load weight begin",
        "Load weight end",
        "KV Cache is allocated",
        "Memory pool end",
        "ready",
    ]
    assert [phase.name for phase in readiness.start.phases] == phases(events)
    assert isinstance(events[0], Restarting)
    assert isinstance(events[1], ServiceStarted)
    assert isinstance(events[-1], Ready)
    assert not any("not-to-be-seen" in repr(event) for event in events)
    assert readiness.reply is not None
    assert (readiness.reply.model, readiness.reply.requests[0].finish_reason) == ("tiny", "length")


def test_models_health_and_completions_that_come_too_early_are_not_ready(engine):
    """Its log speaks, and has not said that it is ready: whatever it answers is of no interest."""
    one = engine("early")
    readiness, events = start(one, timeout=8)
    assert one.client.models().models == ("tiny",)
    assert one.client.health(None).status == 200
    assert readiness.start.ready is False
    assert not readiness.start.died
    assert (
        readiness.start.failure
        == "not ready after 8 s; the last that it logged of its start: Memory pool end"
    )
    assert phases(events)[-1] == "Memory pool end"


def test_an_engine_that_logs_nothing_is_ready_by_health_and_completion(engine):
    readiness, events = start(engine("silent"))
    assert (readiness.start.ready, phases(events)) == (True, [])


@pytest.mark.parametrize("mode", ["unhealthy", "hanging"])
def test_one_that_logs_nothing_and_does_not_answer_is_never_ready(engine, mode: str):
    readiness, events = start(engine("silent", mode), timeout=4)
    assert (readiness.start.ready, readiness.start.died) == (False, False)
    assert readiness.start.failure.startswith(
        "not ready after 4 s; the last that it logged of its start: nothing; "
    )
    assert any(isinstance(event, NotYet) for event in events)


def test_a_process_that_dies_while_it_starts_ends_the_wait_at_once(engine):
    readiness, events = start(engine("dies"), timeout=600)
    assert (readiness.start.ready, readiness.start.died) == (False, True)
    assert readiness.start.failure.endswith("after the restart: the process has ended")
    assert LogLine("IndexError: list index out of range") in events
    assert events[-1] == Died(readiness.start.failure)


@pytest.mark.parametrize("mode", ["status 500", "no finish_reason", "no text"])
def test_a_ready_line_without_a_real_completion_is_not_ready(engine, mode: str, monkeypatch):
    monkeypatch.setattr(module, "PROBE", 0.1)
    readiness, events = start(engine("ready", mode), timeout=600)
    assert (readiness.start.ready, readiness.start.died) == (False, False)
    assert readiness.start.failure.startswith(
        f"says that it is ready, and does not answer: completion: {mode}"
    )
    assert "ready" in phases(events)


def test_an_older_process_at_the_port_is_not_this_start(engine):
    one = engine("silent", "ok")
    with FakeServer(port=one.port):
        readiness, events = start(one, timeout=5)
    assert readiness.start.ready is False
    reasons = [event.reason for event in events if isinstance(event, NotYet)]
    died = readiness.start.died  # the address was in use, which the stand-in does not survive
    assert died or any("older than this start" in reason for reason in reasons)


class Scripted:
    """A service whose states are played in order, the last one for ever."""

    name = "scripted.service"

    def __init__(self, *states: ServiceState) -> None:
        self.states = list(states)

    def state(self) -> ServiceState:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def restart(self) -> None:
        pass

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        yield f"log of {run}\n".encode()


OLD = ServiceState("failed", "a", None, "failed, result signal")
NOBODY = Client(LocalConnection(), "python3", "127.0.0.1", 9)


def play(*states: ServiceState, budget: int = 0, timeout: float = 30) -> tuple[Readiness, list[Event]]:
    service: Service = Scripted(*states)
    events: list[Event] = []
    return (
        restart_and_wait(service, NOBODY, timeout=timeout, restart_budget=budget, on_event=events.append),
        events,
    )


def test_the_old_run_is_not_taken_for_the_new_one():
    stopping = ServiceState("deactivating", "a", 7, "deactivating", pending=True)
    new = ServiceState("failed", "b", None, "failed, status 1")
    readiness, events = play(OLD, stopping, stopping, new)
    assert (readiness.start.invocation, readiness.start.died) == ("b", True)
    assert LogLine("log of b") in events


def test_a_start_that_never_happens_is_said():
    refused = ServiceState("failed", "a", None, "failed, result start-limit-hit")
    readiness, events = play(OLD, refused)
    assert not [event for event in events if isinstance(event, Died)]  # no run of it did
    assert readiness.start.failure == "it was not started: failed, result start-limit-hit"
    assert readiness.start.died  # so that it is diagnosed
    stopping = ServiceState("deactivating", "a", 7, "deactivating", pending=True)
    readiness, _ = play(OLD, stopping, timeout=1)
    assert readiness.start.failure == "no new start within 1 s: deactivating"
    assert not readiness.start.died


@pytest.mark.parametrize(("budget", "runs"), [(0, ["b"]), (1, ["b", "c"]), (2, ["b", "c", "d"])])
def test_a_service_that_its_manager_starts_again_and_again(budget: int, runs: list[str], monkeypatch):
    monkeypatch.setattr(module, "QUIET", 0.0)
    monkeypatch.setattr(module, "LAST_WORDS", 0.0)
    states = [OLD]
    for run in "bcdef":
        states.append(ServiceState("activating", run, 7, "activating"))
        states.append(ServiceState("activating", run, None, "status 1", pending=True, restarting=True))
    readiness, events = play(*states, budget=budget)
    assert [event.run for event in events if isinstance(event, ServiceStarted)] == runs
    assert (readiness.start.died, readiness.start.invocation) == (True, runs[-1])


def test_one_that_ends_well_has_not_been_started_again():
    """vLLM exits with 0 after a fatal error; systemd then forgets the run of a unit that is not enabled."""
    running = ServiceState("active", "b", 7, "active")
    readiness, _ = play(OLD, running, ServiceState("inactive", "", None, "inactive"))
    assert readiness.start.died
    assert "again" not in readiness.start.failure


def test_a_restart_that_nobody_saw_dying_is_a_death():
    first, second = (ServiceState("active", run, 7, "active") for run in "bc")
    readiness, _ = play(OLD, first, second)
    assert readiness.start.died
    assert "it was started again meanwhile" in readiness.start.failure


def test_a_service_that_is_not_restarted_must_run_and_answer(engine):
    one = engine("ready")
    failed = check_running(one.service, one.client, timeout=30, on_event=lambda event: None)
    assert failed.start.failure == "it does not run: not started"
    start(one)
    running = check_running(one.service, one.client, timeout=30, on_event=lambda event: None)
    assert (running.start.ready, running.start.restarted) == (True, False)
    assert check_running(None, one.client, timeout=30, on_event=lambda event: None).start.ready
    one.service.stop()
    gone = check_running(None, one.client, timeout=30, on_event=lambda event: None)
    assert gone.start.failure == "completion: no connection: Connection refused"


def test_a_service_that_still_starts_is_waited_for_though_not_restarted():
    port, told = free_port(), list[Event]()
    client = Client(LocalConnection(), sys.executable, "127.0.0.1", port)
    service = Scripted(ServiceState("active", "b", None, "active"))
    with ExitStack() as later:

        def listens_then(event: Event) -> None:
            if not told:
                later.enter_context(FakeServer(port=port))
            told.append(event)

        found = check_running(service, client, timeout=30, on_event=listens_then)
    assert (found.start.ready, found.start.restarted) == (True, False)
    assert told[0] == NotYet("completion: no connection: Connection refused")


def test_a_service_that_never_listens_is_not_waited_for_for_ever():
    service = Scripted(ServiceState("active", "b", 7, "active"))
    found = check_running(service, NOBODY, timeout=0.5, on_event=lambda event: None)
    assert found.start.failure == "completion: no connection: Connection refused"
