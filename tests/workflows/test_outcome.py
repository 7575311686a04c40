"""A log in which no fault was recognised: nothing failed, or nothing was recognised, or a guess."""

from __future__ import annotations

import pytest

from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.workflows.diagnose import Report, diagnose, load_knowledge


def told(*lines: str) -> Report:
    text = "\n".join(lines).encode() + b"\n"
    return diagnose(LogEvidence("log"), load_knowledge(), "", LogSource("log", text))


SOMEWHERE = [
    ("E1221 09:21:11.000000 1 main.cc:245] failed to start GRPC service: Unavailable", "failed to start"),
    ("2026-11-03T10:11:12Z level=ERROR source=x.go:12 msg=\"no such image: a/b:c\"", "no such image"),
    ("thread 'main' has overflowed its stack: fatal runtime error: stack overflow", "stack overflow"),
    ("my.module.WeirdProblemError: the frobnicator is not ready", "the frobnicator is not ready"),
    ("error: could not lock config file /etc/x: Permission denied", "could not lock config"),
    ("Nov 03 10:11:12 node7 mountd[12]: refused mount request from gpu9 for /data", "refused mount"),
    ("[ERROR] cluster: quorum lost, cannot elect a leader", "quorum lost"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), SOMEWHERE)
def test_a_failure_in_any_programs_words_is_an_incident(line: str, said: str) -> None:
    report = told("something starts", line, "")
    assert report.outcome == "incident"
    (found,) = report.incidents
    assert found.incident.initiator is not None
    assert said in f"{found.incident.initiator.type}: {found.incident.initiator.message}"
    assert found.verdict.certainty in ("possible", "unknown")


def test_what_says_more_goes_before_what_only_reports_it() -> None:
    report = told(
        "loader: open /models/a.gguf: permission denied",
        "error: worker has failed",
        "exit status 1",
    )
    assert report.incidents[0].incident.initiator is not None
    assert "permission denied" in report.incidents[0].incident.initiator.message
    assert report.incidents[0].verdict.category == "permission"


@pytest.mark.parametrize(
    "line",
    [
        "INFO: connection to cache failed, retrying in 2 s",
        "warning: option x is deprecated and will be ignored",
        "requests: 120 ok, 0 errors",
        "error_rate=0.0 p99=12ms",
        "[2026-05-12 14:04:46] Receive: obj=GenerateReqInput(text='fatal error: no such file')",
    ],
)
def test_what_is_no_failure_gives_none(line: str) -> None:
    report = told("something starts", line, "something goes on")
    assert report.outcome == "not-recognised"
    assert report.look is not None
    assert all(line.worth == 1 for line in report.look.suspicious)


def test_a_line_that_was_survived_is_only_suspicious() -> None:
    report = told("cannot find the plugin directory", *(f"step {number} done" for number in range(30)))
    assert report.outcome == "not-recognised"
    assert report.look is not None
    assert [line.number for line in report.look.suspicious] == [1]


def test_health_is_said_with_what_shows_it() -> None:
    report = told(
        "[2026-05-12 14:03:40] The server is fired up and ready to roll!",
        "[2026-05-12 14:03:44] warmup failed once: connection refused, trying again",
    )
    assert report.outcome == "nothing-failed"
    assert report.health == ("it became ready",)


def test_a_secret_in_a_suspicious_line_is_replaced() -> None:
    report = told("nothing failed here but password=hunter2hunter2 broken", "x", "y")
    assert report.look is None or "hunter2" not in str(report.look)
    assert "hunter2" not in str(report.incidents)
