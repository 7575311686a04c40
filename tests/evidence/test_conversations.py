"""What users asked and models answered is replaced; what a server says of it stays."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from triage.evidence.redaction.redactor import Redactor

SAID = "tell me of Zanzibar"
LOGGED = [
    f"[2026-05-12 14:04:46] Receive: obj=GenReqInput(rid='a', text='{SAID}', n=1)",
    f"[2026-05-12 14:04:47] Finish: obj=X(), out={{'text': '{SAID}', 'meta_info': {{'id': 'a'}}}}",
    f"Received request cmpl-1: prompt: '{SAID}\\nat once', params: SamplingParams(n=1), lora_request: None.",
    f"Generated response cmpl-1: output: '{SAID}', output_token_ids: [5, 6, 7], finish_reason: stop",
    f'Received request: prompt: "it\'s this: {SAID}", params: SamplingParams(n=1)',
    json.dumps({"messages": [{"role": "user", "content": SAID}]}),
    json.dumps({"messages": [{"role": "user", "content": [{"type": "text", "text": SAID}]}]}),
    json.dumps({"choices": [{"message": {"content": "x", "reasoning_content": SAID}}]}),
    json.dumps({"choices": [{"tool_calls": [{"function": {"arguments": f'{{"q": "{SAID}"}}'}}]}]}),
    json.dumps({"MESSAGE": json.dumps({"messages": [{"role": "user", "content": f'"{SAID}" he said'}]})}),
    json.dumps({"MESSAGE": f"Receive: obj=GenerateReqInput(text='it\\'s {SAID}', rid='b')", "PRIORITY": "6"}),
    str({"role": "user", "content": SAID}),
    f"Input: system_prompt={SAID!r} temperature=0.2",
]  # fmt: skip
STAYS = [
    "The prompt (length 4097) is longer than the maximum model length of 4096",
    "content type: 'application/json' is not supported",
    'ValueError: text="x" is no option',
    "input: int = 3, output: Tensor",
    '{"text": "a line of a program\'s own log", "level": "info"}',
    "def prompt(text): return text",
]


@pytest.mark.parametrize("line", LOGGED)
def test_what_was_said_goes_and_the_rest_stays(line: str) -> None:
    told = Redactor().redact(line)
    assert "Zanzibar" not in told
    assert "<prompt-1>" in told
    assert Redactor(keep_prompts=True).redact(line) == line
    if line.startswith("{") and '"' in line[:3]:
        json.loads(told)


@pytest.mark.parametrize("line", STAYS)
def test_what_a_program_says_stays(line: str) -> None:
    assert Redactor().redact(line) == line


@pytest.mark.parametrize(
    "line", ["input_ids=[1, 22, 7, 1043]", '"prompt_token_ids": [1, 22, 7]', '\\"input_ids\\": [1, 22, 7]']
)
def test_token_numbers_are_the_prompt_too(line: str) -> None:
    told = Redactor().redact(line)
    assert "22" not in told
    assert "<tokens>" in told
    if line.startswith('"'):
        json.loads("{" + told + "}")


def test_a_quote_that_is_never_closed_ends_with_its_line() -> None:
    told = Redactor().redact(f"Receive: obj=GenerateReqInput(text='{SAID}\nthe next line stays")
    assert "Zanzibar" not in told
    assert told.endswith("\nthe next line stays")


def test_the_journals_json_stays_whole_around_a_cut_prompt() -> None:
    told = Redactor().redact(json.dumps({"MESSAGE": f"Receive: obj=A(text='{SAID}", "PRIORITY": "6"}))
    assert json.loads(told)["PRIORITY"] == "6"
    assert "Zanzibar" not in told


@pytest.mark.parametrize(
    "unit", ['{"content": "', "content='", '\\"content\\": \\"', '"content": "\\\\', "mira."]
)
def test_hostile_repetitions_take_linear_time(unit: str) -> None:
    def seconds(times: int) -> float:
        text = unit * times
        return min(_timed(text) for _ in range(3))

    assert seconds(40_000) < 8 * max(seconds(10_000), 0.005)


def _timed(text: str) -> float:
    started = time.perf_counter()
    Redactor().redact(text)
    return time.perf_counter() - started


def test_ordinary_logs_lose_nothing() -> None:
    """False alarms: in the logs of the corpus only what stands in requests is replaced."""
    found = [
        line
        for path in sorted((Path(__file__).parents[1] / "corpus").rglob("*log*"))
        if path.is_file()
        for line in path.read_text(errors="replace").splitlines()
        if "<prompt-" in Redactor().redact(line)
    ]
    request = re.compile(r"request|Receive|Finish|role|prompt|Input", re.IGNORECASE)
    assert [line for line in found if not request.search(line)] == []
