"""Every labelled log: the right initiator, its ranks, its roles, its category, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.corpus import cases
from triage.common.yaml_files import load_model
from triage.workflows.diagnose import Knowledge, load_knowledge
from triage.workflows.replay import EXPECTED, Expected, compare, diagnose_case, logs_of


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return load_knowledge()


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_case(case: Path, knowledge: Knowledge) -> None:
    expected = load_model(case / EXPECTED, Expected, "expectation")
    report = diagnose_case(case, knowledge)
    assert list(compare(expected, report)) == []
    if expected.category != "none":
        assert len(report.incidents) == (expected.incidents or 1)
        incident = report.incidents[-1].incident
        assert incident.initiator.because if incident.initiator else incident.candidates


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_label_stands_on_the_line_that_it_names(case: Path) -> None:
    expected = load_model(case / EXPECTED, Expected, "expectation")
    line, text = expected.initiator_line, expected.initiator
    if line is None or text is None:
        return
    (log,) = [log for log in logs_of(case) if log.name.endswith(expected.source)]
    row = bytes(log.data).split(b"\n")[line - 1].decode("utf-8", "backslashreplace")
    assert text in row.replace('\\"', '"')
