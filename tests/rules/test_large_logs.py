"""What a rule knows is found in a large log as well, of which only windows are read.

A signature is held against faults, and all that can be a fault is in the one database of places, so a rule
adds nothing to it. That holds as long as every case gives the same faults and verdict by windows and whole.
"""

from __future__ import annotations

import pytest

from tests.logs.test_windows import PAD, needs_hyperscan, padded
from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.logs.reading import windows
from triage.rules.authoring.check import rule_cases
from triage.workflows import diagnose

KNOWLEDGE = diagnose.load_knowledge()
CASES = [case for case in rule_cases(KNOWLEDGE.rules) if case.kind == "match"]


def diagnosed(log: bytes) -> list[object]:
    """All that is concluded. Where a message ends is not told by rows without any prefix, as these here."""
    report = diagnose.diagnose(LogEvidence("case"), KNOWLEDGE, "", LogSource("case", log))
    return [
        (
            found.verdict,
            found.incident.fingerprint,
            [(item.rule, item.outcome) for item in found.diagnoses],
            [
                (
                    fault.type,
                    fault.role,
                    fault.position,
                    fault.count,
                    fault.frames,
                    fault.because,
                    fault.doubt,
                )
                for fault in found.incident.faults
            ],
        )
        for found in report.incidents
    ]


@needs_hyperscan
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case_among_healthy_lines(case, monkeypatch: pytest.MonkeyPatch) -> None:
    log = padded(case.log.encode(), PAD // 8)
    for name, size in {"SMALL": 0, "HEAD": 2000, "STEP": 5000}.items():
        monkeypatch.setattr(windows, name, size)
    in_windows = diagnosed(log)
    monkeypatch.setattr(windows, "finder", lambda: None)
    assert in_windows == diagnosed(log)
