from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.verify.server import FakeServer
from tests.verify.test_links import Answering
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.load.client import Client, Completion, Reply, client_of, load_of
from triage.verify.load.plan import LoadShape, planned


def client(port: int, python: str = sys.executable, host: str = "127.0.0.1") -> Client:
    return Client(LocalConnection(), python, host, port, timeout=10)


def answer(output_tokens: int | None, error: str = "") -> Completion:
    return Completion(0.0, (0.1, 0.2, 0.3), 5, output_tokens, "length", "tiny", error)


def reply(*answers: Completion) -> Reply:
    return Reply("tiny", "completions", True, 1.5, answers)


def test_a_load_is_what_the_server_counted():
    with FakeServer() as server:
        mine = client(server.port)
        like = mine.complete(("a b",), 4)
        load = mine.load(like, LoadShape(4, 2, (6, 6), (5, 5)), seed="s", deadline=30)
    assert like.requests[0].text == " a a a a"
    assert (load.concurrency, load.prompt_tokens, load.max_tokens) == (2, 6, 5)
    assert (load.token_source, load.api, load.ignore_eos) == ("usage", "completions", True)
    assert [(one.prompt_tokens, one.output_tokens, one.error) for one in load.requests] == [(6, 5, "")] * 4
    assert {(one.asked_prompt, one.asked_tokens) for one in load.requests} == {(6, 5)}
    assert (load.prompt_lengths, load.output_lengths, load.rate) == (None, None, 0.0)


def test_every_request_is_kept_with_what_it_asked_for():
    shape = LoadShape(6, 4, (2, 40), (3, 9), 200.0)
    with FakeServer(ttft=0.0, itl=0.0) as server:
        mine = client(server.port)
        load = mine.load(mine.complete(("a",), 4), shape, seed="s", deadline=30)
    assert load.prompt_lengths == (2, 40)
    assert load.output_lengths == (3, 9)
    assert (load.rate, load.arrivals, load.concurrency) == (200.0, "poisson", 4)
    asked = [(one.asked_prompt, one.asked_tokens, one.due) for one in load.requests]
    assert asked == [(ask.prompt_tokens, ask.max_tokens, ask.due) for ask in planned(shape)]
    assert [(one.prompt_tokens, one.output_tokens) for one in load.requests] == [pair[:2] for pair in asked]
    assert all(one.sent >= one.due for one in load.requests)


def test_an_interface_can_be_asked_for():
    with FakeServer() as server:
        mine = Client(LocalConnection(), sys.executable, "127.0.0.1", server.port, api="generate")
        assert mine.complete(("a",), 4).api == "generate"


def test_answers_that_are_missing_make_no_sense():
    one = {"model": "", "api": "chat", "ignore_eos": True, "wall": 0.0, "requests": []}
    mine = Client(Answering(json.dumps(one).encode()), "python3", "127.0.0.1", 1)
    with pytest.raises(UnreachableError, match="0 of 2 requests"):
        mine.complete(("a", "b"), 4)


def test_a_server_that_counts_nothing_has_its_chunks_counted():
    load = load_of(reply(answer(None), answer(None)), LoadShape(2, 1, (5, 5), (3, 3)))
    assert load.token_source == "chunks"
    assert [(one.output_tokens, one.error) for one in load.requests] == [(3, ""), (3, "")]


def test_a_count_that_is_missing_in_some_answers_only_is_a_failure():
    three = reply(answer(8), answer(None), answer(None, "timed out: in 5 s"))
    load = load_of(three, LoadShape(3, 1, (5, 5), (3, 3)))
    assert load.token_source == "usage"
    assert [one.error for one in load.requests] == ["", "no usage", "timed out: in 5 s"]


def test_missing_usage_over_the_wire():
    with FakeServer("one request without usage") as server:
        mine = client(server.port)
        like = reply()
        load = mine.load(like, LoadShape(3, 1, (6, 6), (5, 5)), seed="s", deadline=30)
    assert sorted(one.error for one in load.requests) == ["", "", "no usage"]


def test_an_interpreter_that_is_not_there_or_no_python(tmp_path: Path):
    with pytest.raises(UnreachableError, match="there is no /no/such/python on the host"):
        client(9, "/no/such/python").models()
    for script in ("echo hello", "echo '[1]'", "echo '{\"models\": 7}'", "exit 3"):
        program = tmp_path / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(UnreachableError, match="measure 127"):
            client(9, str(program)).models()


@pytest.mark.parametrize(
    "answer", [{"requests": [{"sent": "x"}] * 5000}, {"refused": "x" * 10**6}], ids=["wrong", "refused"]
)
def test_what_a_host_says_is_not_all_repeated(answer: dict[str, object]):
    one = Client(Answering(json.dumps(answer).encode()), "python3", "127.0.0.1", 1, timeout=10)
    with pytest.raises(UnreachableError) as found:
        one.models()
    assert len(str(found.value)) < 700


def test_an_address_of_another_host_is_refused():
    with pytest.raises(UnreachableError, match=r"192\.0\.2\.7 is no address of this host"):
        client(8000, host="192.0.2.7").models()


def test_where_a_deployment_serves():
    connection = LocalConnection()
    assert client_of(connection, Deployment("x", port=81, host="::1")).address == "::1:81"
    with pytest.raises(UnreachableError, match="find the port of x"):
        client_of(connection, Deployment("x"))
    said = "its command names $PORT, and nothing known sets that"
    with pytest.raises(UnreachableError, match=r"\$PORT"):
        client_of(connection, Deployment("x", engine="vllm", disagreements=(said,)))


@pytest.mark.parametrize("flag", ["ssl-certfile", "ssl-keyfile"])
def test_a_service_that_speaks_tls_is_refused_before_anything_is_asked(flag):
    found = Deployment("x", engine="vllm", port=8443, arguments={flag: "/etc/x.pem"})
    with pytest.raises(RefusedError, match="speaks TLS"):
        client_of(LocalConnection(), found)
