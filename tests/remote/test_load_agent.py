from __future__ import annotations

import ast
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.verify.server import FakeServer
from triage.remote import load_agent

SOURCE = Path(load_agent.__file__).read_text("utf-8")


AGENT = (sys.executable, "-I", "-S", "-B", "-c")


def ask(server: FakeServer | None, op: str, command: tuple[str, ...] = AGENT, **job: Any) -> dict[str, Any]:
    """Run the agent as a host would, and return its reply."""
    port = server.port if server else 9
    job = {"op": op, "host": "127.0.0.1", "port": port, "timeout": 10, "deadline": 20, **job}
    done = subprocess.run(
        [*command, SOURCE],
        input=json.dumps(job).encode(),
        capture_output=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == b""
    return json.loads(done.stdout)


def load(
    server: FakeServer | None, requests: int = 3, prompt_tokens: int = 5, max_tokens: int = 8, **job: Any
) -> dict[str, Any]:
    plan = [[prompt_tokens, max_tokens, 0]] * requests
    return ask(server, "load", **{"api": "completions", "ignore_eos": True, "plan": plan, **job})


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


def test_each_request_asks_for_its_own_lengths_at_its_own_time():
    plan = [[3, 2, 0.0], [9, 5, 0.3], [4, 7, 0.05]]
    with FakeServer(ttft=0.0, itl=0.0) as server:
        reply = load(server, plan=plan, concurrency=3)
    asked = [(len(one.body["prompt"].split()), one.body["max_tokens"]) for one in server.served]
    assert asked == [(3, 2), (9, 5), (4, 7)]
    assert [one["output_tokens"] for one in reply["requests"]] == [2, 5, 7]
    sent = [one["sent"] for one in reply["requests"]]
    assert sent[1] >= 0.3
    assert sent[2] >= sent[1]  # one that is planned behind another is sent behind it


def test_at_a_rate_no_request_waits_for_another_to_end():
    with FakeServer(ttft=0.0, itl=0.0, together=4) as server:  # none is answered before all four are there
        reply = load(server, plan=[[1, 1, 0.02 * number] for number in range(4)], concurrency=4)
    assert errors(reply) == [""] * 4
    with FakeServer(ttft=0.0, itl=0.0) as server:
        load(server, plan=[[1, 1, 0]] * 6, concurrency=2)
    assert server.most_running <= 2  # the bound holds all the same


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
        ("native error", "error in stream: The input is too long."),
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
        job = {"plan": [[5, 8, 0]] * 2} if stream else {"prompts": ["a", "b"], "api": "completions"}
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
    reply = load(None, model="tiny", requests=2)
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
    with FakeServer("native only") as server:
        reply = ask(server, "complete", prompts=["a b c"], max_tokens=4, logprobs=True)
        assert (reply["api"], errors(reply)) == ("generate", [""])
        (one,) = reply["requests"]
        assert (one["text"], one["prompt_tokens"], one["finite"]) == (" a a a a", 3, True)
        reply = load(server, api="generate", max_tokens=5)
        assert errors(reply) == [""] * 3
        assert {(one["output_tokens"], len(one["chunks"])) for one in reply["requests"]} == {(5, 5)}
    with FakeServer() as server:
        reply = ask(server, "complete", prompts=["a"], apis=["chat"])
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
        ask(server, "complete", prompts=["a"], key="sk-secret", pids=[os.getpid()])
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
        {"op": "load"},
        {"op": "load", "plan": []},
        {"op": "load", "plan": [[1, 1, 0]] * 10_001},
        {"op": "load", "plan": [[100_000, 1, 0]] * 41},
        {"op": "load", "plan": [[1, 1]]},
        {"op": "load", "plan": [[1, 1, -1]]},
        {"op": "load", "plan": [["1", 1, 0]]},
        {"op": "load", "plan": [[1, 10**6, 0]]},
        {"op": "load", "plan": [[1, 1, 0]], "concurrency": 10**6},
        {"op": "load", "plan": [[1, 1, 0]], "timeout": -1},
        {"op": "complete", "prompts": []},
        {"op": "complete", "prompts": [7]},
    ],
)
def test_what_it_does_not_do(job: dict[str, Any]):
    assert set(ask(None, **{"op": "health", **job})) == {"refused"}


RECORDED = Path(__file__).parents[1] / "verify" / "streams"


def recorded(name: str) -> load_agent.Exchange:
    """What a real server sent, byte for byte: SGLang 0.5.10.post1 and vLLM 0.32.0, five tokens asked for."""
    exchange = load_agent.Exchange(b"")
    exchange.response.feed(1.0, (RECORDED / f"{name}.http").read_bytes())
    return exchange


@pytest.mark.parametrize("api", ["completions", "chat", "generate"])
@pytest.mark.parametrize("engine", ["sglang", "vllm"])
def test_streams_of_real_servers(engine: str, api: str):
    if (engine, api) == ("vllm", "generate"):
        return
    for name in (f"{engine}-{api}", *([f"{engine}-{api}-in-pieces"] if api == "generate" else [])):
        exchange = recorded(name)
        manner = load_agent.Manner("tiny", api, True, True)
        answer = load_agent.judge(exchange, 0.0, manner, load_agent.Ask("x", 5, 0.0))
        assert exchange.response.complete
        assert (answer["error"], answer["finish_reason"], answer["output_tokens"]) == ("", "length", 5)
        assert answer["prompt_tokens"] > 2
        assert len(answer["text"]) > 5
        assert 4 <= len(answer["chunks"]) <= 5  # the first two tokens may come as one


def test_a_stream_that_repeats_all_text_is_read_like_one_in_pieces():
    manner, asked = load_agent.Manner("tiny", "generate", True, True), load_agent.Ask("x", 5, 0.0)
    whole, pieces = (
        load_agent.judge(recorded(f"sglang-generate{form}"), 0.0, manner, asked)
        for form in ("", "-in-pieces")
    )
    assert whole["text"] == pieces["text"] == ' [","' * 5
    assert len(whole["chunks"]) == len(pieces["chunks"]) == 5


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sglang-refused", "status 400: The input (12001 tokens) is longer"),
        ("vllm-refused", "status 400: This model's maximum context length"),
        ("sglang-generate-refused", "error in stream: The input (12001 tokens) is longer"),  # status 200
    ],
)
def test_refusals_of_real_servers(name: str, said: str):
    manner = load_agent.Manner("tiny", "completions", True, True)
    answer = load_agent.judge(recorded(name), 0.0, manner, load_agent.Ask("x", 5, 0.0))
    assert answer["error"].startswith(said)


def test_probabilities_of_the_native_interface():
    manner = load_agent.Manner("tiny", "generate", True, False)
    exchange = recorded("sglang-generate-logprobs")
    assert load_agent.judge(exchange, 0.0, manner, load_agent.Ask("x", 5, 0.0))["finite"] is True


def test_a_program_that_is_late_does_not_make_the_server_late():
    """The kernel says when the bytes came, however long they waited for their reader."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(type=socket.SOCK_DGRAM) as first:
        load_agent.ask_for_stamps(first)
        time.sleep(0.1)
        exchange, selector = load_agent.Exchange(b"x"), selectors.DefaultSelector()
        exchange.open(selector, (socket.AF_INET, listener.getsockname()))
        served, _ = listener.accept()
        with served, selector:
            served.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n")
            written = load_agent.clock()
            time.sleep(0.2)
            exchange.advance(selector, False)
            exchange.end(selector)
    (at, _), *_ = exchange.response.lines
    assert at - written < 0.1


def test_health_tells_a_listener_that_is_older_than_the_service():
    with FakeServer() as server, subprocess.Popen(["sleep", "60"]) as younger:
        try:
            reply = ask(server, "health", pid=younger.pid)
            assert reply["status"] == 200
            assert reply["foreign"] == f"process {os.getpid()}, which is older than this start"
            assert ask(server, "health", pid=os.getpid())["foreign"] == ""
            assert ask(server, "health", pid=None)["foreign"] == ""
        finally:
            younger.terminate()
    with FakeServer("unhealthy") as server:
        assert ask(server, "health")["status"] == 503
    assert ask(None, "health")["status"] == 0


CONTAINED = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
SERVES_ITSELF = """
import subprocess, sys
from tests.verify.server import FakeServer
with FakeServer() as server:
    job = sys.stdin.read().replace('"port": 9', f'"port": {server.port}')
    subprocess.run([sys.executable, "-I", "-S", "-B", "-c", sys.argv[1]], input=job.encode(), check=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="a container's view of processes needs root")
def test_health_tells_in_a_container_of_a_listener_outside_of_it():
    with FakeServer() as server:
        outside = ask(server, "health", (*CONTAINED, *AGENT), inside=True)
        assert (outside["status"], outside["foreign"]) == (200, "a process outside of its container")
    assert ask(None, "health", (*CONTAINED, *AGENT), inside=True)["foreign"] == ""  # nobody listens
    own = ask(None, "health", (*CONTAINED, sys.executable, "-c", SERVES_ITSELF), inside=True)
    assert (own["status"], own["foreign"]) == (200, "")


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
        response = load_agent.Response()
        for at in range(0, len(answer), size):
            assert not response.complete or at > len(answer) - len("0\r\n\r\n")
            response.feed(float(at), answer[at : at + size])
        assert response.complete
        assert [event["choices"][0]["text"] for _, event in load_agent.events_of(response)] == ["x"]


OPERATIONS: dict[str, dict[str, Any]] = {
    "health": {},
    "models": {},
    "running": {"paths": ["/metrics"], "gauges": [], "counters": []},
    "complete": {"prompts": ["a"]},
    "load": {"api": "completions", "model": "tiny", "plan": [[5, 8, 0]] * 3},
}
NOT_SENT = "no connection: the API key is not sent"


def said(reply: dict[str, Any]) -> list[str]:
    return errors(reply) if "requests" in reply else [reply["error"]]


in_no_unit = pytest.mark.skipif(
    bool(load_agent.group_of(os.getpid())),
    reason="all that a unit of systemd starts belongs to it",
)


@in_no_unit
@pytest.mark.parametrize("op", OPERATIONS)
def test_no_stranger_gets_the_key(op: str):
    """Who listens is another process than the service, a younger one and an older; and none is known."""
    with FakeServer() as server, subprocess.Popen(["sleep", "60"], start_new_session=True) as service:
        try:
            for pids in ([service.pid], [], [1 << 22], None, ["1"], [1]):
                reply = ask(server, op, key="sk-secret", pids=pids, **OPERATIONS[op])
                assert all(error.startswith(NOT_SENT) for error in said(reply)), reply
                assert "sk-secret" not in json.dumps(reply)
            assert server.served == []
        finally:
            service.kill()


@pytest.mark.parametrize("op", OPERATIONS)
def test_the_service_and_what_it_started_get_the_key(op: str):
    with FakeServer() as server:
        for pid in (os.getpid(), os.getppid()):
            reply = ask(server, op, key="sk-secret", pids=[pid], **OPERATIONS[op])
            assert not any(error.startswith(NOT_SENT) for error in said(reply)), reply
        assert {one.authorization for one in server.served} <= {"Bearer sk-secret"}
        assert server.served or op not in ("complete", "load")


@in_no_unit
def test_a_stranger_that_takes_the_port_over_gets_no_key(monkeypatch: pytest.MonkeyPatch):
    """In the middle of a load: the next connection goes to somebody else."""
    monkeypatch.setattr(load_agent, "LOOK", 0.0)
    with FakeServer() as server:
        job = {"op": "models", "host": "127.0.0.1", "port": server.port, "key": "k", "pids": [os.getpid()]}
        agent = load_agent.Agent(job)
        assert agent.unfit() == ""
        assert agent.models()["error"] == ""
    take = f"""
import socket, time
with socket.create_server(("127.0.0.1", {server.port})):
    print("taken", flush=True)
    time.sleep(60)
"""
    with (
        subprocess.Popen([sys.executable, "-c", take], stdout=subprocess.PIPE) as stranger,
        subprocess.Popen(["sleep", "60"]) as service,
    ):
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == b"taken\n"
        agent.job["pids"] = [service.pid]  # of which the stranger is none, as it is of this test
        assert f"to process {stranger.pid}, which listens there" in agent.models()["error"]
        service.kill()
        stranger.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account too")
def test_who_may_not_see_the_listeners_files_goes_by_its_user():
    """As an operator does who is neither root nor the service's user."""
    serve = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    while True:
        listener.accept()[0].close()
"""
    as_operator = ("setpriv", "--reuid", "65533", "--regid", "65533", "--clear-groups", *AGENT)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", serve, user], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        for user in ("65532", "65531")
    ]
    try:
        assert started[0].stdout is not None
        port = int(started[0].stdout.readline())
        for service, sent in ((started[0], True), (started[1], False)):
            reply = ask(None, "models", as_operator, port=port, key="k", pids=[service.pid])
            assert reply["error"].startswith(NOT_SENT) is not sent, reply
    finally:
        for one in started:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()
