"""From evidence to a report: what every way in has in common."""

from __future__ import annotations

import pytest

from triage import pipeline
from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.report import json, text

SECRETS = ("hf_abcdefghijklmnopqrstuvwx", "sk-abcdefgh12345678ABCDEFGH", "hunter2hunter2")
LOG = f"""\
[2026-05-12 14:03:51] server_args=ServerArgs(model_path='/srv/models/m', tp_size=8, api_key='{SECRETS[1]}')
[2026-05-12 14:03:59 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/sglang/srt/hf.py", line 300, in login
    login(token="{SECRETS[0]}")
ConnectionError: https://user:{SECRETS[2]}@proxy.example/ refused {SECRETS[0]}

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/opt/venv/lib/python3.11/site-packages/sglang/srt/hf.py", line 310, in load
    raise ValueError(f"cannot load with {{token}}") from error
ValueError: cannot load with {SECRETS[0]}
"""


@pytest.fixture(scope="module")
def knowledge():
    return pipeline.load_knowledge()


def test_no_secret_of_a_given_log_reaches_a_report(knowledge):
    report = pipeline.diagnose(LogEvidence("log"), knowledge, "", LogSource("log", LOG.encode()))
    assert report.incidents
    shown = json.dumps(json.diagnosis(report)) + "".join(line.plain for line in text.lines(report))
    assert "<token-" in shown
    assert [secret for secret in SECRETS if secret in shown] == []


def test_the_same_secret_has_the_same_placeholder(knowledge):
    report = pipeline.diagnose(LogEvidence("log"), knowledge, "", LogSource("log", LOG.encode()))
    initiator = report.incidents[-1].incident.initiator
    assert initiator is not None
    messages = [initiator.message, *(cause.message for cause in initiator.chain)]
    placeholders = {word for message in messages for word in message.split() if word.startswith("<token-")}
    assert len(placeholders) == 1
