"""What a bench says of a layout that died. The rest: tests of the workflow, and tests/e2e/test_bench.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.test_text import report
from triage.common.errors import UnreachableError
from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.workflows.bench_unit import cause_of
from triage.workflows.diagnose import Report, load_knowledge

FOUND = report()
LAST = FOUND.incidents[-1]
UNEXPLAINED = replace(FOUND, incidents=(replace(LAST, diagnoses=()),))
OPEN = replace(LAST, diagnoses=(), incident=replace(LAST.incident, initiator=None))


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (FOUND, f"confirmed: {LAST.diagnoses[0].title}"),
        (UNEXPLAINED, "no rule explains IndexError: list index out of range"),
        (replace(FOUND, incidents=(OPEN,)), "its log leaves open what came first"),
        (replace(FOUND, incidents=()), ""),
        (UnreachableError("reading", "it", "it is gone", ""), "not diagnosed: reading it: it is gone"),
    ],
)
def test_the_cause_of_a_start_that_died(monkeypatch, found: Report | Exception, told: str):
    def diagnose(*_: object) -> Report:
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr("triage.workflows.diagnose.diagnose", diagnose)
    assert cause_of(LocalConnection(), Deployment("kimi"), load_knowledge()) == told
