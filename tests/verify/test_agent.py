from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.verify.server import FakeServer
from triage.verify import agent

SOURCE = Path(agent.__file__).read_text("utf-8")


def ask(server: FakeServer | None, op: str, **job: Any) -> dict[str, Any]:
    """Run the agent as a host would, and return its reply."""
    port = server.port if server else 9
    job = {"op": op, "host": "127.0.0.1", "port": port, "timeout": 10, "deadline": 20, **job}
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", SOURCE],
        input=json.dumps(job).encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == b""
    return json.loads(done.stdout)


def load(server: FakeServer, **job: Any) -> dict[str, Any]:
    job = {
        "api": "completions",
        "ignore_eos": True,
        "requests": 3,
        "max_tokens": 8,
        "prompt_tokens": 5,
        **job,
    }
    return ask(server, "load", **job)


def errors(reply: dict[str, Any]) -> list[str]:
    return [one["error"] for one in reply["requests"]]


def test_source_runs_on_python_3_7_with_the_standard_library_alone():
    tree = ast.parse(SOURCE, feature_version=(3, 7))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert {str(name).partition(".")[0] for name in imported} <= sys.stdlib_module_names
    assert len(SOURCE) < 100_000  # one argument of a command holds at most 128 KiB


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_load_records_what_the_server_did(api: str):
    with FakeServer(ttft=0.03, itl=0.004, together=3) as server:
        reply = load(server, api=api, requests=6, concurrency=3, max_tokens=10)
    assert errors(reply) == [""] * 6
    assert server.most_running == 3
    assert {one["output_tokens"] for one in reply["requests"]} == {10}
    assert {len(one["chunks"]) for one in reply["requests"]} == {10}
    assert {one["finish_reason"] for one in reply["requests"]} == {"length"}
    slowest = max(served.written[-1] - served.received for served in server.served)
    assert reply["wall"] >= slowest
    for one in reply["requests"]:
        assert one["sent"] <= one["chunks"][0]
        assert one["chunks"] == sorted(one["chunks"])
        assert one["chunks"][-1] <= reply["wall"]
    # The client's clock starts before the server has the request and sees text after it was written.
    theirs = sorted(served.written[0] - served.received for served in server.served)
    ours = sorted(one["chunks"][0] - one["sent"] for one in reply["requests"])
    assert all(mine >= his for mine, his in zip(ours, theirs, strict=True))


def test_the_empty_role_chunk_of_a_chat_is_no_first_token():
    with FakeServer(ttft=0.0, itl=0.0) as server:
        reply = load(server, api="chat", requests=1, max_tokens=4)
    assert len(reply["requests"][0]["chunks"]) == 4


def test_prompts_have_the_length_asked_for_and_differ_from_each_other():
    with FakeServer(ttft=0.0, itl=0.0) as server:
        load(server, requests=4, prompt_tokens=50, max_tokens=1, seed="one")
        load(server, requests=4, prompt_tokens=50, max_tokens=1, seed="one")
        load(server, requests=4, prompt_tokens=50, max_tokens=1, seed="two")
    prompts = [served.body["prompt"] for served in server.served]
    assert {len(prompt.split()) for prompt in prompts} == {50}
    assert set(prompts[:4]) == set(prompts[4:8])
    assert len(set(prompts)) == 8


@pytest.mark.parametrize(
    ("mode", "kind"),
    [
        ("error in stream", "error in stream: EngineCore encountered an issue."),
        ("no finish_reason", "no finish_reason"),
        ("aborted", "finish_reason abort"),
        ("short", "short output: 4 of 8 tokens"),
        ("dropped", "connection dropped: in the middle of an answer"),
        ("garbage", "not JSON: {]"),
        ("hostile JSON", "not JSON: ["),
        ("wrong types", "no finish_reason"),
        ("10 MB line", "too much data: a line of more than 1 MiB"),
        ("endless line", "too much data: a line of more than 1 MiB"),
        ("not HTTP", "not HTTP: "),
        ("endless headers", "not HTTP: headers of more than 64 KiB"),
        ("bad length", "not HTTP: a length of -7"),
        ("bad chunk", "not HTTP: a length of zz"),
        ("status 500", "status 500: the engine is not well"),
        ("plain JSON", "not streamed: the answer came in one piece"),
    ],
)
def test_each_misbehaviour_is_a_failure_with_its_kind(mode: str, kind: str):
    with FakeServer(mode, ttft=0.0, itl=0.0) as server:
        reply = load(server)
    assert all(error.startswith(kind) for error in errors(reply)), errors(reply)


@pytest.mark.parametrize("mode", ["slow loris", "endless", "stalls", "hanging"])
def test_an_answer_without_end_is_timed_out(mode: str):
    with FakeServer(mode, ttft=0.0, itl=0.001) as server:
        stream = mode != "hanging"
        job = {"requests": 2} if stream else {"prompts": ["a", "b"], "api": "completions"}
        reply = ask(server, "load" if stream else "complete", timeout=0.5, concurrency=2, **job, model="tiny")
    assert errors(reply) == ["timed out: no full answer in 0.5 s"] * 2


def test_the_deadline_ends_requests_that_were_never_sent_too():
    with FakeServer("stalls") as server:
        reply = load(server, requests=5, deadline=1, timeout=60)
    assert errors(reply) == ["timed out: the run's time is up"] * 5


def test_a_stream_that_ends_with_the_connection_is_complete():
    with FakeServer("until close", ttft=0.0, itl=0.0) as server:
        assert errors(load(server)) == [""] * 3


def test_comments_and_other_fields_of_a_stream_are_no_text():
    with FakeServer("keep-alive comments", ttft=0.0, itl=0.0) as server:
        reply = load(server)
    assert errors(reply) == [""] * 3
    assert {len(one["chunks"]) for one in reply["requests"]} == {8}


def test_missing_usage_leaves_the_count_open():
    with FakeServer("no usage", ttft=0.0, itl=0.0) as server:
        reply = load(server)
    assert errors(reply) == [""] * 3
    assert {one["output_tokens"] for one in reply["requests"]} == {None}


def test_one_that_refuses_connections():
    reply = ask(None, "load", model="tiny", api="completions", requests=2)
    assert errors(reply) == ["no connection: Connection refused"] * 2
    reply = ask(None, "complete", prompts=["a"])
    assert errors(reply) == ["no connection: Connection refused"]


def test_completions_are_asked_for_as_the_server_wants():
    with FakeServer() as server:
        reply = ask(server, "complete", prompts=["a b c", "d"], max_tokens=4)
    assert (reply["api"], reply["ignore_eos"], reply["model"]) == ("completions", True, "tiny")
    assert [one["text"] for one in reply["requests"]] == [" a a a a"] * 2
    assert [one["prompt_tokens"] for one in reply["requests"]] == [3, 1]
    assert all(served.body["temperature"] == 0 for served in server.served)
    with FakeServer("chat only") as server:
        reply = ask(server, "complete", prompts=["a"])
    assert (reply["api"], errors(reply)) == ("chat", [""])
    with FakeServer("strict") as server:
        reply = ask(server, "complete", prompts=["a"])
    assert (reply["api"], reply["ignore_eos"], errors(reply)) == ("completions", False, [""])


def test_a_completion_without_text_or_finish_reason_is_none():
    with FakeServer("no text") as server:
        assert errors(ask(server, "complete", prompts=["a"])) == ["no text"]
    with FakeServer("no finish_reason") as server:
        assert errors(ask(server, "complete", prompts=["a"])) == ["no finish_reason"]


def test_the_key_is_a_bearer_token_and_never_an_argument():
    with FakeServer() as server:
        ask(server, "complete", prompts=["a"], key="sk-secret")
        assert server.served[0].authorization == "Bearer sk-secret"
        assert "refused" in ask(server, "complete", prompts=["a"], key="x\r\nHost: elsewhere")


@pytest.mark.parametrize(
    "job",
    [
        {"host": "192.0.2.1"},
        {"host": 7},
        {"port": 0},
        {"port": "80"},
        {"op": "exec"},
        {"op": "load", "requests": 10**6},
        {"op": "load", "concurrency": 10**6},
        {"op": "load", "requests": 10_000, "prompt_tokens": 100_000},
        {"op": "load", "timeout": -1},
        {"op": "complete", "prompts": []},
        {"op": "complete", "prompts": [7]},
    ],
)
def test_what_it_does_not_do(job: dict[str, Any]):
    assert set(ask(None, **{"op": "health", **job})) == {"refused"}


def test_health_tells_a_listener_that_is_older_than_the_service():
    with FakeServer() as server, subprocess.Popen(["sleep", "60"]) as younger:
        try:
            reply = ask(server, "health", pid=younger.pid)
            assert (reply["status"], reply["stale"]) == (200, True)
            assert ask(server, "health", pid=reply["listener"])["stale"] is False
            assert ask(server, "health", pid=None)["stale"] is False
        finally:
            younger.terminate()
    with FakeServer("unhealthy") as server:
        assert ask(server, "health")["status"] == 503
    assert ask(None, "health")["status"] == 0


def test_many_streams_at_once():
    with FakeServer(together=64) as server:
        reply = load(server, requests=64, concurrency=64, max_tokens=5)
    assert errors(reply) == [""] * 64


def test_answers_arrive_whole_in_whatever_pieces():
    body = b'data: {"choices": [{"text": "x", "finish_reason": "stop"}]}\r\n\r\ndata: [DONE]\r\n\r\n'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(part), part) for part in (body[:9], body[9:]))
    answer = head + chunks + b"0\r\n\r\n"
    for size in (1, 2, 3, 7, len(answer)):
        response = agent.Response()
        for at in range(0, len(answer), size):
            assert not response.complete or at > len(answer) - len("0\r\n\r\n")
            response.feed(float(at), answer[at : at + size])
        assert response.complete
        assert [event["choices"][0]["text"] for _, event in agent.events_of(response)] == ["x"]
