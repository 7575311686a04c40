"""From evidence to a report: what every way in has in common."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from triage.evidence.cases.case import read_case
from triage.evidence.catalogue import UnitCommand
from triage.evidence.recorded import LogEvidence, RecordedEvidence
from triage.logs.model import LogSource
from triage.report import json, text
from triage.workflows import diagnose

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
    return diagnose.load_knowledge()


def test_no_secret_of_a_given_log_reaches_a_report(knowledge):
    report = diagnose.diagnose(LogEvidence("log"), knowledge, "", LogSource("log", LOG.encode()))
    assert report.incidents
    shown = json.dumps(json.diagnosis(report)) + "".join(line.plain for line in text.lines(report))
    assert "<token-" in shown
    assert [secret for secret in SECRETS if secret in shown] == []


def test_the_same_secret_has_the_same_placeholder(knowledge):
    report = diagnose.diagnose(LogEvidence("log"), knowledge, "", LogSource("log", LOG.encode()))
    initiator = report.incidents[-1].incident.initiator
    assert initiator is not None
    messages = [initiator.message, *(cause.message for cause in initiator.chain)]
    placeholders = {word for message in messages for word in message.split() if word.startswith("<token-")}
    assert len(placeholders) == 1


class Edited:
    """A case whose unit was edited after the run: another size of the pipeline."""

    def __init__(self, case: Path, now: str) -> None:
        self._evidence, self._now = RecordedEvidence(read_case(case)), now
        self.origin = self._evidence.origin

    def foresee(self, queries):
        pass

    def ask(self, query):
        answer = self._evidence.ask(query)
        if isinstance(query, UnitCommand):
            argv = [self._now if word == "8" else word for word in answer.value.argv]
            return replace(answer, value=replace(answer.value, argv=tuple(argv)))
        return answer


def test_a_unit_that_was_edited_after_the_run_does_not_change_what_the_run_was(knowledge):
    case = Path(__file__).parents[2] / "examples/cases/sglang-0.5.11-pp8-triton"
    as_it_was = diagnose.diagnose(RecordedEvidence(read_case(case)), knowledge)
    edited = diagnose.diagnose(Edited(case, "4"), knowledge)
    assert edited.deployment.layout == as_it_was.deployment.layout
    assert edited.incidents[-1].verdict == as_it_was.incidents[-1].verdict
    (best, *_), (same, *_) = (report.incidents[-1].diagnoses for report in (edited, as_it_was))
    assert [each.result for each in best.findings] == [each.result for each in same.findings]
    said = "the unit was changed after this run: --pp-size 8 then, 4 now"
    assert [said] == [each for each in edited.deployment.disagreements if "changed after" in each]
    shown = [line.plain for line in text.lines(edited)]
    assert f"! {said}" in shown
    assert any("pp-size is 8 in the log of the run, and 4 now" in line for line in shown)


OUTLIVED = """\
[2026-05-12 14:00:00] The server is fired up and ready to roll!
[2026-05-12 14:00:01] Traceback (most recent call last):
  File "/opt/v/lib/python3.11/site-packages/sglang/srt/layers/linear.py", line 1320, in forward
    output = self.quant_method.apply(self, x, bias)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[2026-05-12 14:00:02] INFO:     127.0.0.1:40110 - "POST /v1/chat/completions HTTP/1.1" 200 OK
[2026-05-12 14:09:00] INFO:     127.0.0.1:40112 - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""


@pytest.mark.parametrize(("last", "certainty"), [("14:09:00", "possible"), ("14:00:03", "confirmed")])
def test_a_fault_after_which_requests_were_answered_is_not_certain(last: str, certainty: str) -> None:
    log = OUTLIVED.replace("14:09:00", last).encode()
    report = diagnose.diagnose(LogEvidence("log"), diagnose.load_knowledge(), "", LogSource("log", log))
    (found,) = report.incidents
    assert (found.verdict.category, found.verdict.certainty) == ("gpu-oom", certainty)


@pytest.mark.parametrize("failing", [LOG, ""])
def test_a_hole_in_a_journal_is_told_with_what_prevents_it(knowledge, failing):
    journal = "Nov 30 02:56:33 gpu01 {}: {}\n".format
    rows = [*failing.splitlines(), "all is well"]
    log = "".join(journal("python[74]", row) for row in rows)
    log += journal("systemd-journald[18]", "Suppressed 225 messages from kimi.service")
    report = diagnose.diagnose(LogEvidence("log"), knowledge, "", LogSource("log", log.encode()))
    assert bool(report.incidents) == bool(failing)
    shown = "".join(line.plain for line in text.lines(report))
    for said in ("225 messages of kimi.service", "systemctl edit kimi.service", "LogRateLimitBurst=10000000"):
        assert said in shown
    assert any("225 messages" in note for note in json.diagnosis(report)["notes"])
