from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.verify.conftest import engine as engine  # a fixture
from tests.verify.server import FakeServer
from tests.verify.test_readiness import Scripted
from triage.common.errors import RefusedError
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.events import Concluded, Event, LoadEnded, LoadStarted, Ready, Sampled, ServiceStarted
from triage.verify.history import History
from triage.verify.load import measure
from triage.verify.model import Verification
from triage.verify.service.model import ServiceState
from triage.workflows.verify import STARTING, Options, verify

QUICK = Options(
    timeout=60, requests=2, repeats=2, most_repeats=2, concurrency=3, max_tokens=8, prompt_tokens=6
)


def run(engine, tmp_path: Path, options: Options = QUICK) -> tuple[Verification, list[Event]]:
    events: list[Event] = []
    history = History(tmp_path / "history")
    result = verify(
        LocalConnection(), engine.deployment, options, events.append, service=engine.service, history=history
    )
    return result, events


def serve(server: FakeServer, tmp_path: Path, **changed: object) -> Verification:
    """Verify a server that runs already and that nobody knows how to restart."""
    options = replace(QUICK, restart=False, **changed)  # type: ignore[arg-type]
    deployment = Deployment("served", port=server.port, python="python3")
    return verify(LocalConnection(), deployment, options, history=History(tmp_path))


def test_a_service_is_restarted_measured_compared_and_stored(engine, tmp_path: Path):
    one = engine("ready")
    first, events = run(one, tmp_path)
    assert (first.verdict, first.model, first.sample) == ("inconclusive", "tiny", " a" * 16)
    assert [(load.concurrency, len(load.requests)) for load in first.loads] == [(1, 2), (3, 3)] * 2
    assert [metrics.failed for metrics in first.metrics] == [0] * 4
    kinds = [type(event) for event in events]
    assert kinds.count(LoadStarted) == kinds.count(LoadEnded) == 4
    assert kinds.index(ServiceStarted) < kinds.index(Ready) < kinds.index(Sampled) < kinds.index(LoadStarted)
    assert events[-1] == Concluded(first)

    second, events = run(one, tmp_path)
    assert second.start.invocation != first.start.invocation
    assert second.compared_with == first.at
    assert [change.figure for change in second.changes] == ["decode rate", "TTFT", "output throughput"]
    assert [event.before_restart for event in events if isinstance(event, Sampled)] == [True, False]
    assert second.notes == ()
    assert list(History(tmp_path / "history").read("local", "engine")) == [first, second]


def test_a_sweep_measures_and_compares_every_level(tmp_path: Path):
    with FakeServer("ok") as server:
        sweep = {"concurrency": 3, "sweep": (2, 3)}
        first, second = (serve(server, tmp_path, **sweep) for _ in range(2))
    assert [metrics.concurrency for metrics in first.metrics] == [1, 2, 3] * 2
    assert [change.concurrency for change in second.changes] == [1, 1, 2, 3]


def test_rates_and_lengths_are_the_same_in_every_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measure, "RATE_TIME", 0.2)
    asked = {"rates": (40.0, 80.0), "prompt_lengths": (2, 30), "output_lengths": (3, 9), "requests": 12}
    with FakeServer() as server:
        first, second = (serve(server, tmp_path, **asked) for _ in range(2))
    assert [metrics.level for metrics in first.metrics] == [(0.0, 1), (40.0, 256), (80.0, 256)] * 2
    assert [len(load.requests) for load in first.loads] == [12, 12, 16] * 2
    assert [change.at for change in second.changes[1:4]] == ["concurrency 1", *["40 requests/s"] * 2]
    runs = [
        [[(one.asked_prompt, one.asked_tokens, one.due) for one in load.requests] for load in result.loads]
        for result in (first, second)
    ]
    assert runs[0] == runs[1]
    assert runs[0][:3] == runs[0][3:]
    assert "not comparable" not in second.reason


def test_a_death_while_starting_is_the_result_and_is_stored(engine, tmp_path: Path):
    result, events = run(engine("dies"), tmp_path)
    assert (result.verdict, result.start.died, result.loads) == ("failed", True, ())
    assert result.reason == result.start.failure
    assert isinstance(events[-1], Concluded)
    assert list(History(tmp_path / "history").read("local", "engine")) == [result]


def test_one_that_its_manager_still_counts_as_starting_is_said_to_be(tmp_path: Path):
    """As a unit of Type=notify whose engine never says that it is up."""
    mute = Scripted(ServiceState("activating", "one", None, pending=True))
    with FakeServer() as server:
        deployment = Deployment("mute", port=server.port, python="python3")
        options = replace(QUICK, restart=False, requests=0)
        result = verify(LocalConnection(), deployment, options, service=mute, history=History(tmp_path))
    assert (result.start.ready, result.notes) == (True, (STARTING,))


def test_a_death_under_load_is_found(engine, tmp_path: Path):
    one = engine("ready")

    def stop(event: Event) -> None:
        if isinstance(event, LoadStarted):
            one.service.stop()

    result = verify(
        LocalConnection(), one.deployment, QUICK, stop, service=one.service, history=History(tmp_path)
    )
    assert (result.verdict, result.start.ready, result.start.died) == ("failed", True, True)
    assert result.reason.startswith("it died after it was ready: the process has ended")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("error in stream", "10 of 10 requests failed: error in stream (10)"),
        ("short", "10 of 10 requests failed: short output (10)"),
        ("dropped", "10 of 10 requests failed: connection dropped (10)"),
        ("second fails", "ready, but one request failed: status 500: EngineDeadError"),
    ],
)
def test_requests_that_fail_make_it_fail(tmp_path: Path, mode: str, reason: str):
    with FakeServer(mode) as server:
        result = serve(server, tmp_path)
    assert (result.verdict, result.reason) == ("failed", reason)


def test_delivery_in_bursts_is_no_measurement(tmp_path: Path):
    with FakeServer("burst") as server:
        serve(server, tmp_path)
        result = serve(server, tmp_path)
    assert result.verdict == "inconclusive"
    assert "bursts" in result.reason


def test_answers_that_change_are_told(tmp_path: Path):
    with FakeServer("moody") as server:
        result = serve(server, tmp_path)
    assert result.notes == ("the same question at temperature 0 was answered differently twice",)


def test_two_requests_at_once_are_part_of_the_exercise(tmp_path: Path):
    with FakeServer() as server:
        result = serve(server, tmp_path, requests=0)
    assert server.most_running == 2
    assert (result.verdict, result.reason) == ("inconclusive", "nothing was measured")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("NaN", "ready, but the probabilities of its tokens are no numbers (NaN or infinite)"),
        (
            "no probabilities",
            "ready, but asked for the probabilities of its tokens it failed: status 500: no compiler",
        ),
        ("long fails", "ready, but a prompt of 2000 words failed: status 500: index out of range"),
    ],
)
def test_numbers_inside_and_a_long_prompt_are_part_of_the_exercise(tmp_path: Path, mode: str, reason: str):
    with FakeServer(mode) as server:
        result = serve(server, tmp_path)
    assert (result.verdict, result.reason) == ("failed", reason)


def test_one_that_takes_no_long_prompt_has_no_fault(tmp_path: Path):
    with FakeServer("short context") as server:
        result = serve(server, tmp_path)
    assert result.verdict == "inconclusive"
    assert result.notes == ("no long prompt was answered: status 400: 300 tokens are too many",)


def test_servers_with_other_habits(tmp_path: Path):
    for mode, api, ignore_eos, source in (
        ("chat only", "chat", True, "usage"),
        ("strict", "completions", False, "usage"),
        ("no usage", "completions", True, "chunks"),
    ):
        with FakeServer(mode) as server:
            result = serve(server, tmp_path / mode)
        load = result.loads[0]
        assert (load.api, load.ignore_eos, load.token_source) == (api, ignore_eos, source), mode
        assert result.verdict == "inconclusive", result.reason


def test_one_that_stopped_listening_fails(tmp_path: Path):
    with FakeServer() as server:
        pass
    result = serve(server, tmp_path)
    assert (result.verdict, result.start.ready) == ("failed", False)
    assert result.reason == "completion: no connection: Connection refused"


def test_repeats_stop_when_the_time_for_loads_is_up(tmp_path: Path):
    with FakeServer(itl=0.02) as server:
        result = serve(server, tmp_path, repeats=500, most_repeats=500, load_timeout=3.0)
    assert result.verdict == "inconclusive", result.reason
    assert 0 < len(result.loads) < 1000
    assert result.repeats.endswith("the time for loads was up")
    assert not any(metrics.failed for metrics in result.metrics)


def test_a_process_of_unknown_origin_is_not_restarted(tmp_path: Path):
    with pytest.raises(RefusedError, match="nobody told how it is started"):
        verify(
            LocalConnection(), Deployment("pid 4711", port=9, main_pid=4711), QUICK, history=History(tmp_path)
        )


def test_a_result_that_cannot_be_stored_is_still_a_result(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with FakeServer() as server:
        result = serve(server, tmp_path / "file")
    assert result.metrics
    assert any(note.startswith("not stored: ") for note in result.notes)


def test_the_key_stays_out_of_what_is_shown_and_stored(tmp_path: Path):
    options = replace(QUICK, restart=False, api_key="sk-secret")
    assert "sk-secret" not in repr(options)
    with FakeServer() as server:
        deployment = Deployment("served", port=server.port, main_pid=os.getpid())
        result = verify(LocalConnection(), deployment, options, history=History(tmp_path))
    assert {served.authorization for served in server.served} == {"Bearer sk-secret"}
    assert "sk-secret" not in repr(result)
    with FakeServer("unauthorized") as server:
        deployment = Deployment("served", port=server.port, main_pid=os.getpid())
        result = verify(LocalConnection(), deployment, options, history=History(tmp_path))
    assert result.reason == "completion: status 401: wrong key Bearer <api-key>, <token-1>"
    assert all(b"sk-secret" not in file.read_bytes() for file in tmp_path.iterdir())
