"""Which lines are what users sent, and where a quote is open."""

from __future__ import annotations

import pytest

from triage.logs.model import LogSource
from triage.logs.reading.reader import read_lines
from triage.logs.requests import MAX_OLDER, Requests, introduces, quoted_at

SERVES = "[2026-05-12 14:01:11 TP0] Decode batch, #running-req: 1"


BEFORE = [f"[2026-05-12 14:00:0{second}] Load weight begin." for second in range(8)]


def held(*rows: str) -> list[bool]:
    requests = Requests()
    source = LogSource("log", "\n".join((*BEFORE, *rows)).encode())
    return [requests.holds(line) for line in read_lines(source)][len(BEFORE) :]


@pytest.mark.parametrize(
    "record",
    [
        "[2026-05-12 14:01:10] Receive: obj=GenerateReqInput(rid='1', text='x",
        "[2026-05-12 14:01:10] Finish: obj=GenerateReqInput(rid='1'), out={'text': 'x",
        "[2026-05-12 14:01:10] Receive OpenAI: obj={'messages': 'x",
        "[2026-05-12 14:01:10 TP0] Input: x",
        "[2026-05-12 14:01:10] User prompt = x",
        '[2026-05-12 14:01:10] Received request: text="x',
    ],
)
def test_a_record_of_a_request_goes_on_until_its_writers_next_one(record: str) -> None:
    assert held(record, "more of it", "[2026-05-12 14:01:10 TP3] of another rank", "still") == [
        True,
        True,
        False,
        True,
    ]
    assert held(record, record.partition("]")[0] + "] Decode batch", "text") == [True, False, False]


@pytest.mark.parametrize(
    "record",
    [
        "[2026-05-12 14:01:10 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        "[2026-05-12 14:01:10] Request failed",
        "[2026-05-12 14:01:10] Loading model: input sizes",
        "a line without a prefix, prompt: x",
    ],
)
def test_other_records_hold_nothing(record: str) -> None:
    assert held(record, "more") == [False, False]


def test_of_lines_that_each_have_a_prefix_only_those_of_the_same_place_belong_together() -> None:
    said = "(APIServer pid=7) INFO 05-12 14:01:10 [{}] {}"
    rows = [
        said.format("logger.py:42", "Received request chatcmpl-1: prompt: 'x"),
        said.format("logger.py:42", "more'"),
        "(APIServer pid=7) Traceback (most recent call last):",
        said.format("launcher.py:9", "bye"),
    ]
    assert held(*rows) == [True, True, False, False]


@pytest.mark.parametrize(
    ("opening", "inside"),
    [
        ("[2026-05-12 14:01:10] Input: x", "[2026-05-12 13:55:00 TP3] Scheduler hit an exception: Traceback"),
        ("[2026-05-12 14:01:10] Input: x", "[2026-05-12 13:55:00] bye"),
        (
            "[2026-05-12 14:01:10] Input: x",
            "May 12 14:01:10 gpu01 python[7]: Traceback (most recent call last):",
        ),
        ("[2026-05-12 14:01:10] Input: x", "[TensorRT-LLM][ERROR] Assertion failed: x"),
        ("May 12 14:01:10 gpu01 python[7]: Input: x", "May 12 14:01:10 gpu01 python[7]: y"),
        *(
            (
                "May 12 14:01:10 gpu01 python[7]: [2026-05-12 14:01:10] Input: x",
                f"May 12 14:01:10 gpu01 python[7]: {row}",
            )
            for row in (
                "[2026-05-12 14:01:10 TP3] x",
                "(EngineCore pid=84) ERROR 05-12 14:01:10 [core.py:9] x",
            )
        ),
    ],
)
def test_a_record_that_was_sent_claims_another_time_process_or_envelope(opening: str, inside: str) -> None:
    logged = "] Input" in opening
    assert held(opening, inside) == [logged, logged]


def test_a_clock_that_was_set_back_ends_it() -> None:
    older = [f"[2026-05-12 13:00:00 TP{number}] x" for number in range(MAX_OLDER + 1)]
    assert held("[2026-05-12 14:01:10] Input: x", *older)[-4:] == [True, True, False, False]


def test_in_a_journal_a_pid_tells_whose_record_goes_on() -> None:
    row = "May 12 14:01:10 gpu01 python[{}]: {}"
    rows = [
        row.format(7, "[2026-05-12 14:01:10] Prompt: x"),
        row.format(8, "not of it"),
        row.format(7, "more"),
    ]
    assert held(*rows) == [True, False, True]


def test_a_request_log_in_json_is_one_line_each() -> None:
    assert held('{"timestamp": "2026-05-12", "event": "request.received", "obj": {}}', "x") == [True, False]
    assert held('{"timestamp": "2026-05-12", "event": "started"}') == [False]


@pytest.mark.parametrize(
    ("text", "open_"),
    [
        ("text='it says ", True),
        ('message="it says ', True),
        ("text='a', stop='b', ", False),
        ("couldn't connect: ", False),
        ("the worker's own words: ", False),
        ("text='don't do ", True),
        (r"text='it\'s said: ", True),
        (r"text='a\\' ", False),
        ("", False),
    ],
)
def test_quotes(text: str, open_: bool) -> None:
    assert quoted_at(text, len(text)) is open_


@pytest.mark.parametrize(
    ("header", "sent"),
    [
        ("Receive: obj=GenerateReqInput(text='", True),
        ("got a new prompt:", True),
        ("{'messages': [", True),
        ("Scheduler hit an exception:", False),
        ("Exception in thread Thread-1 (output_handler):", False),
        ("Error in the context:", False),
    ],
)
def test_what_introduces_the_text_of_a_user(header: str, sent: bool) -> None:
    assert introduces(header) is sent
