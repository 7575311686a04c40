"""Whatever is known to break a service breaks nothing where a user sends it to a healthy one that logs it.

The texts are those that the rules are tested with: every fault that `triage` knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from triage.logs import read_incidents
from triage.logs.model import LogSource
from triage.rules.load import load_rules

KNOWN = [case.log.rstrip("\n").split("\n") for rule in load_rules() for case in rule.cases.match]
RUN = "9f6f2a8c1c5d4d0e9f5d3f6b7a8c9d0e"

# What users paste happened before they sent it.
START = [
    "[2999-12-20 14:00:00] server_args=ServerArgs(model_path='/srv/m', tp_size=1, pp_size=1)",
    "[2999-12-20 14:00:09 TP0] Load weight begin. avail mem=94.31 GB",
    "[2999-12-20 14:01:00] The server is fired up and ready to roll!",
]
GOES_ON = [
    "[2999-12-20 14:01:11 TP0] Decode batch, #running-req: 1",
    '[2999-12-20 14:01:12] INFO:     10.1.1.4:51122 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "[2999-12-20 14:03:10 TP0] Decode batch, #running-req: 1",
]


ENDS = [
    "[2999-12-20 14:01:15 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/v/lib/python3.12/site-packages/sglang/srt/managers/scheduler.py", line 3120, in run',
    "    scheduler.event_loop_overlap()",
    "ValueError: this is what ends it",
    "",
    "[2999-12-20 14:01:15] Received sigquit from a child process. It usually means the child failed.",
]


def plain(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    return [*START, "[2999-12-20 14:01:10] Input: what is this?", *sent, *then]


def short(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    return [f"Dec 20 14:00:00 gpu01 python[4600]: {row}" for row in plain(sent, then)]


def docker(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    return [
        json.dumps({"log": f"{row}\n", "stream": "stderr", "time": "2999-12-20T14:00:00.1Z"})
        for row in plain(sent, then)
    ]


def cri(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    return [f"2999-12-20T14:00:00.1Z stderr F {row}" for row in plain(sent, then)]


def pod(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    return [f"[pod/kimi-0/server] {row}" for row in plain(sent, then)]


def entry(message: str) -> str:
    who = {"_PID": "4600", "SYSLOG_IDENTIFIER": "python", "_SYSTEMD_INVOCATION_ID": RUN}
    return json.dumps({"__REALTIME_TIMESTAMP": "1778594640000000", **who, "MESSAGE": message})


def journal(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    return [entry(row) for row in plain(sent, then)]


def one_entry(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    text = "\n".join(sent)
    record = f"[2999-12-20 14:01:10] Receive: obj=GenerateReqInput(text='{text}')"
    return [entry(row) for row in (*START, record, *then)]


def receive(sent: Sequence[str], then: Sequence[str] = GOES_ON) -> list[str]:
    text = repr("\n".join(sent))
    return [
        *START,
        f"[2999-12-20 14:01:10] Receive: obj=GenerateReqInput(rid='1', text={text}, stream=False)",
        *then,
    ]


def vllm(sent: Sequence[str]) -> list[str]:
    said = "(APIServer pid=7) INFO 12-20 14:01:10 [{}] {}"
    text = repr("\n".join(sent))
    return [
        said.format("api_server.py:1351", "vLLM API server version 0.13.0"),
        said.format(
            "logger.py:42", f"Received request chatcmpl-1: prompt: {text}, params: SamplingParams(n=1)"
        ),
        said.format("loggers.py:248", "Engine 000: Avg prompt throughput: 5.0 tokens/s"),
    ]


def vllm_in_lines(sent: Sequence[str]) -> list[str]:
    said = "(APIServer pid=7) INFO 12-20 14:01:10 [{}] {}"
    first, *_, last = vllm(())
    rows = ("Received request chatcmpl-1: prompt: '", *sent, "', params: SamplingParams(n=1)")
    return [first, *(said.format("logger.py:42", row) for row in rows), last]


@pytest.mark.parametrize(
    "form", [plain, short, docker, cri, pod, journal, one_entry, receive, vllm, vllm_in_lines]
)
def test_nothing_that_a_user_sends_is_an_incident(form: Callable[[Sequence[str]], list[str]]) -> None:
    believed = [sent for sent in KNOWN if read_incidents([LogSource("log", "\n".join(form(sent)).encode())])]
    assert believed == []


@pytest.mark.parametrize("form", [plain, short, docker, cri, pod, journal, one_entry, receive])
def test_what_ends_the_service_afterwards_is_found(form: Callable[..., list[str]]) -> None:
    for sent in KNOWN:
        (incident,) = read_incidents([LogSource("log", "\n".join(form(sent, ENDS)).encode())])
        assert incident.initiator is not None, sent
        assert incident.initiator.message == "this is what ends it", sent


def test_the_same_texts_are_faults_where_a_service_says_them() -> None:
    unseen = [text for text in KNOWN if not read_incidents([LogSource("log", "\n".join(text).encode())])]
    assert len(unseen) < len(KNOWN) / 20
