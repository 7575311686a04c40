"""Requests that run when a service is to be restarted, asked for in the engines' own words."""

from __future__ import annotations

import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.verify.server import FakeServer
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.events import Draining, Event
from triage.verify.load.client import Client, Running
from triage.verify.service import drain as module
from triage.verify.service.drain import drain, fate, outlook, running

SGLANG = (
    '{"version":"0.5.10.post1","dp_rank_count":1,"loads":[{"num_running_reqs":RUNNING,"num_waiting_reqs":0}]}'
)
TWO_RANKS = """{"loads": [{"num_running_reqs": RUNNING, "num_waiting_reqs": 2},
    {"num_running_reqs": 1, "num_waiting_reqs": 0}]}"""
OLDER = '[{"rid":null,"dp_rank":0,"num_reqs":RUNNING,"num_waiting_reqs":1,"num_tokens":0,"ts_tic":22973.5}]'
VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} RUNNING.0
vllm:num_requests_running{engine="1",model_name="tiny"} 1.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 7.0
"""
OLD_METRICS = (
    'sglang:num_running_reqs{model_name="tiny"} RUNNING.0\nsglang:num_queue_reqs{model_name="tiny"} 3.0\n'
)


def client_of(server: FakeServer) -> Client:
    return Client(LocalConnection(), sys.executable, "127.0.0.1", server.port, timeout=10)


@contextmanager
def busy(server: FakeServer, requests: int, seconds: float) -> Iterator[None]:
    """So many requests that take so long, from when all of them run."""
    server.ttft = seconds
    body = b'{"stream": false, "prompt": "a", "max_tokens": 1}'

    def ask() -> None:
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/v1/completions", body).read()

    threads = [threading.Thread(target=ask) for _ in range(requests)]
    for thread in threads:
        thread.start()
    while server.running < requests:
        time.sleep(0.01)
    yield
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    ("path", "words", "count"),
    [
        ("/v1/loads?include=core", SGLANG, 0),
        ("/v1/loads?include=core", TWO_RANKS, 3),
        ("/get_load", OLDER, 0),
        ("/metrics", VLLM, 1),
        ("/metrics", OLD_METRICS, 3),
        ("/metrics", "# nothing of interest\n", None),
        ("/v1/loads?include=core", '{"loads": 3}', None),
        ("/get_load", "[" * 9999, None),
        ("/get_load", '[{"num_reqs": -1}, {"num_reqs": 1e999}, {"num_reqs": true}, 7]', 0),
        ("/none", "", None),
    ],
)
def test_each_engine_tells_in_its_own_words(path: str, words: str, count: int | None):
    with FakeServer() as server:
        server.told = {path: words}
        found = client_of(server).running()
    assert found == Running(count, "" if count is not None else "it does not tell")


def test_one_that_does_not_listen_has_none():
    with FakeServer() as server:
        client = client_of(server)
    assert client.running() == Running(None, "no connection: Connection refused")
    assert running(client) == 0


def test_a_restart_waits_for_running_requests(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "LOOK", 0.1)
    events: list[Event] = []
    with FakeServer() as server, busy(server, 2, 2.0):
        server.told = {"/metrics": VLLM.replace('engine="1",model_name="tiny"} 1.0', 'engine="1"} 0.0')}
        told = drain(client_of(server), Deployment("x"), 60, events.append)
        assert server.running == 0
    assert told.startswith("the restart waited ")
    assert told.endswith(" s for 2 running requests to end")
    assert next(event.requests for event in events if isinstance(event, Draining)) == 2


@pytest.mark.parametrize("patience", [0, 0.3])
def test_it_does_not_wait_for_ever(patience: float):
    with FakeServer() as server, busy(server, 1, 2.0):
        server.told = {"/v1/loads?include=core": SGLANG}
        told = drain(client_of(server), Deployment("x", engine="sglang"), patience, lambda event: None)
    assert told == (
        "1 running request had not ended when it was restarted; "
        "SGLang lets them end first, for as long as its manager waits for it to stop"
    )


def test_where_none_runs_nothing_is_said():
    with FakeServer() as server:
        server.told = {"/v1/loads?include=core": SGLANG}
        assert drain(client_of(server), Deployment("x"), 60, lambda event: pytest.fail("waits")) == ""


@pytest.mark.parametrize(
    ("engine", "timeout", "said"),
    [
        ("vllm", "", "breaks them off"),
        ("vllm", "0", "breaks them off"),
        ("vllm", "20", "gives them 20 s"),
        ("vllm", "x", "breaks them off"),
        ("", "", "breaks them off"),
    ],
)
def test_what_becomes_of_them_depends_on_the_engine(engine, timeout: str, said: str):
    assert said in fate(Deployment("x", engine=engine, arguments={"shutdown-timeout": timeout}))


def test_who_is_asked_for_a_restart_is_told():
    with FakeServer() as server:
        server.told = {"/v1/loads?include=core": SGLANG}
        deployment = Deployment("x", engine="vllm", python=sys.executable, port=server.port)
        assert outlook(LocalConnection(), deployment) == ""
        with busy(server, 2, 2.0):
            told = outlook(LocalConnection(), deployment)
    assert told == " 2 running requests there now; a restart breaks them off"
    assert outlook(LocalConnection(), Deployment("x")) == ""  # nobody knows its port
    assert outlook(LocalConnection(), replace(deployment, python="/no/such")) == ""
