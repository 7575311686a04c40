"""Starts that follow each other within seconds in one file, as a shell loop or supervisord makes it."""

from __future__ import annotations

import itertools
import re
from datetime import datetime, timedelta

import pytest

from tests.logs.corpus import CORPUS
from triage.logs import read_incidents
from triage.logs.model import Incident, LogSource

OF_SGLANG = re.compile(r"(?<=\[)20\d\d-\d\d-\d\d \d\d:\d\d:\d\d")
OF_VLLM = re.compile(r"(?<= )\d\d-\d\d \d\d:\d\d:\d\d(?= \[)")
CRASHES = (
    "sglang-0.5.10-pp4-triton",
    "vllm-0.32-no-such-model",
    "vllm-0.32-port-in-use",
    "vllm-0.32-kv-too-small",
    "vllm-0.32-worker-killed",
    "vllm-0.32-pp1-worker-indexerror-at-load",
)


def moments(text: str) -> list[datetime]:
    full = [*OF_SGLANG.findall(text), *(f"2026-{short}" for short in OF_VLLM.findall(text))]
    return [datetime.fromisoformat(each) for each in full]


def later(text: str, by: timedelta) -> str:
    text = OF_SGLANG.sub(lambda match: str(datetime.fromisoformat(match[0]) + by), text)
    return OF_VLLM.sub(lambda match: str(datetime.fromisoformat(f"2026-{match[0]}") + by)[5:], text)


def in_one_file(*names: str, seconds: int = 1) -> str:
    """The logs of several starts, each of which begins so long after the end of the one before."""
    whole, end = "", None
    for name in names:
        text = (CORPUS / name / "log.log").read_text("utf-8")
        if end is not None:
            text = later(text, end + timedelta(seconds=seconds) - min(moments(text)))
        end = max(moments(text))
        whole += text if text.endswith("\n") else f"{text}\n"
    return whole


def incidents(text: str) -> tuple[Incident, ...]:
    return read_incidents([LogSource("service.log", text.encode())])


def told(incident: Incident) -> tuple[object, ...]:
    fault = incident.initiator
    assert fault is not None
    # without a prefix, what the next start says first may be the rest of a message
    return incident.fingerprint, fault.type, fault.message.partition("\n")[0], fault.ranks


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(CRASHES, 2)))
def test_two_starts_are_two_incidents(first: str, second: str) -> None:
    alone = [told(incident) for name in (first, second) for incident in incidents(in_one_file(name))]
    assert len(alone) == 2
    assert [told(incident) for incident in incidents(in_one_file(first, second))] == alone


@pytest.mark.parametrize("name", CRASHES)
def test_a_loop_of_quick_crashes_is_one_incident_and_how_often(name: str) -> None:
    (alone,) = incidents(in_one_file(name))
    (incident,) = incidents(in_one_file(*[name] * 10))
    assert (told(incident), incident.count) == (told(alone), 10)
    assert incident.ended == max(moments(in_one_file(*[name] * 10)))


def test_the_crash_that_came_last_is_told_last() -> None:
    one, other = "vllm-0.32-port-in-use", "vllm-0.32-no-such-model"
    counted = [(each.facts["model_path"], each.count) for each in incidents(in_one_file(one, other, one))]
    assert counted == [("/srv/models/nope", 1), ("/srv/models/tiny-llama-8L", 2)]


START = "(APIServer pid={}) INFO 11-29 14:41:2{} [api_utils.py:286] non-default args: {{'model': '/m/{}'}}\n"
CRASH = "(APIServer pid={}) ERROR 11-29 14:41:22 [core.py:1] ValueError: no\n"


@pytest.mark.parametrize(("second", "model"), [(2, "b"), (1, "a")])
def test_another_main_process_is_another_start_however_the_first_one_ended(second: int, model: str) -> None:
    text = START.format(1, 0, "a") + START.format(second, 1, "b") + CRASH.format(second)
    (incident,) = incidents(text)
    assert incident.facts["model_path"] == f"/m/{model}"
