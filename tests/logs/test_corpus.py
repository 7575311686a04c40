"""Every labelled log: the right initiator, its ranks, its roles, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.corpus import Expected, cases, expected, gaps, sources
from triage.logs import read_incidents
from triage.logs.model import Incident, LogSource


def marked() -> list[object]:
    known = gaps()
    assert known.keys() <= {case.name for case in cases()}
    return [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.xfail(reason=known[case.name], strict=True) if case.name in known else (),
        )
        for case in cases()
    ]


@pytest.mark.parametrize("case", marked())
def test_case(case: Path) -> None:
    wanted, logs = expected(case), sources(case)
    incidents = read_incidents(logs)
    if wanted.category == "none":
        assert incidents == ()
        return
    assert len(incidents) == wanted.incidents
    incident = incidents[-1]
    if wanted.count is not None:
        assert incident.count == wanted.count
    if wanted.undecided:
        assert incident.initiator is None
        assert incident.candidates
    else:
        _check_initiator(incident, wanted, logs)
    for line, role in wanted.roles.items():
        assert (line, role) in [(fault.position.line, fault.role) for fault in incident.faults]
    if wanted.silent_ranks is not None:
        assert list(incident.silent_ranks) == wanted.silent_ranks
    if wanted.phase is not None:
        assert incident.phase == wanted.phase
    assert wanted.facts.items() <= incident.facts.items()


def _check_initiator(incident: Incident, wanted: Expected, logs: list[LogSource]) -> None:
    initiator = incident.initiator
    assert initiator is not None
    assert initiator.because
    assert (initiator.position.line, initiator.type) == (wanted.initiator_line, wanted.type or initiator.type)
    log = next(log for log in logs if log.name == initiator.position.source)
    assert log.name.endswith(wanted.source)
    if wanted.initiator:
        line = log.data.split(b"\n")[initiator.position.line - 1].decode("utf-8", "backslashreplace")
        assert wanted.initiator in line.replace('\\"', '"')
    if wanted.ranks is not None:
        assert sorted(initiator.ranks) == sorted(wanted.ranks)
    if wanted.frame is not None:
        frame = initiator.frame
        assert frame is not None
        assert f"{frame.file.rpartition('/')[2]}:{frame.function}" == wanted.frame
