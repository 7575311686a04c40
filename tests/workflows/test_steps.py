"""The steps of playbooks are the commands' own calls; what these do is tested where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.verify.test_compare import figures, result
from triage.common.errors import UnreachableError, UsageError
from triage.evidence.model import Deployment, Layout
from triage.hosts.local import LocalConnection
from triage.playbook.model import ConsentAsked
from triage.report.renderers import document, lines
from triage.verify.service import exclusion
from triage.workflows import steps
from triage.workflows.bench import Bench, MeasuredLayout
from triage.workflows.capture import Captured

TP8, PP8 = Layout(tp=8), Layout(pp=8)
HERE = steps.StepContext(LocalConnection(), document)


@pytest.mark.parametrize(
    ("best", "notes", "ok", "summary"),
    [
        (PP8, (), True, "recommended: pp8; why"),
        (None, (), False, "recommended: none; why"),
        (PP8, ("its command is not as it was",), False, "recommended: pp8; why"),
    ],
)
def test_bench_gives_the_document_of_the_command(monkeypatch, tmp_path, best, notes, ok: bool, summary: str):
    asked = []
    monkeypatch.setattr(exclusion, "DIRECTORY", str(tmp_path))

    def bench(connection: object, deployment: object, layouts: object, options: object, *_: object) -> Bench:
        asked.append((layouts, options))
        return Bench("kimi", TP8, (MeasuredLayout(PP8, result(figures(20, 80))),), best, "why", notes)

    monkeypatch.setattr("triage.workflows.bench_unit.bench", bench)
    monkeypatch.setattr("triage.workflows.steps.discover", lambda *_: (Deployment("kimi"),))
    loads = {"repeats": 2, "rate": "0.5,2", "prompt_tokens": "32-512", "concurrency": "", "load_timeout": 9}
    arguments = {"unit": "", "layouts": "tp8,pp8,tp8", "timeout": 60, **loads}
    done = steps.STEPS["bench"](HERE, arguments)
    assert (done.ok, done.summary, document(done.result)["schema"]) == (ok, summary, "triage.bench/1")
    assert "RECOMMENDED" in "".join(line.plain for line in lines(done.shown[0]))
    ((layouts, options),) = asked
    assert (layouts, options.timeout, options.repeats, options.requests) == ([TP8, PP8], 60, 2, 8)
    assert (options.rates, options.prompts, options.load_timeout) == ((0.5, 2.0), (32, 512), 9)
    with pytest.raises(UsageError):
        steps.STEPS["bench"](HERE, {"layouts": "tp8,,"})
    with pytest.raises(UsageError, match="one takes the place of the other"):
        steps.STEPS["bench"](HERE, {**arguments, "concurrency": 8})


@pytest.mark.parametrize(
    ("do", "arguments", "told"),
    [
        ("verify", {}, " runs: kimi.service"),
        ("bench", {"unit": "other.service"}, " runs: other.service"),
        ("verify", {"restart": False}, ""),
        ("patch", {}, ""),
    ],
)
def test_of_a_step_that_restarts_it_is_told_what_runs(monkeypatch, do: str, arguments, told: str):
    def discover(evidence: object, unit: str) -> tuple[Deployment]:
        return (Deployment(unit or "kimi.service"),)

    monkeypatch.setattr("triage.workflows.steps.discover", discover)
    monkeypatch.setattr("triage.workflows.steps.outlook", lambda connection, one: f" runs: {one.name}")
    asked = ConsentAsked("Step", do, "gpu01", arguments)
    assert steps.outlook_of(LocalConnection(), asked) == told


def test_what_cannot_be_found_out_is_left_to_the_step(monkeypatch):
    def discover(evidence: object, unit: str) -> None:
        raise UnreachableError("find", "a service", "there is none", "")

    monkeypatch.setattr("triage.workflows.steps.discover", discover)
    assert steps.outlook_of(LocalConnection(), ConsentAsked("Step", "verify", "gpu01", {})) == ""


@pytest.mark.parametrize("said", [{}, {"replace": True}, {"full": True, "unit": "kimi"}])
def test_capture_is_told_what_the_step_says(monkeypatch, said):
    asked = {}

    def capture(evidence: object, known: object, case: Path, unit: str, **how: bool) -> Captured:
        asked.update(how, unit=unit)
        return Captured(case, 1, 0)

    monkeypatch.setattr("triage.workflows.capture.capture", capture)
    done = steps.STEPS["capture"](HERE, {"output": "case", **said})
    assert (done.ok, done.summary) == (True, "captured case")
    assert asked == {
        "full": said.get("full", False),
        "replacing": said.get("replace", False),
        "unit": said.get("unit", ""),
    }
