"""What the log reader can name as the first fault, some rule explains, and a case of that rule shows it."""

from __future__ import annotations

from functools import lru_cache

import pytest

from triage.logs import read_incidents
from triage.logs.faults.line_files import known_lines
from triage.logs.faults.weight import Weight
from triage.logs.model import LogSource
from triage.logs.roles import HOST_FAULTS
from triage.rules.match import match
from triage.workflows import diagnose


def can_be_first(line) -> bool:
    """A line of no known weight is never chosen before another, unless as a fault of the host."""
    return line.weight is not Weight.ERROR or line.type in HOST_FAULTS


FIRST = sorted({(each.kind, each.type) for each in known_lines() if each.type and can_be_first(each)})
NUMBERED = {("kernel", "Xid"): "Xid 79", ("native", "signal"): "SIGSEGV"}  # of which the line tells more


@lru_cache(maxsize=1)
def explained() -> frozenset[tuple[str, str]]:
    """Kind and type of every first fault of a case, where the case's own rule fits it."""
    found = set()
    for rule in diagnose.load_knowledge().rules:
        for case in rule.cases.match:
            for incident in read_incidents([LogSource("case", case.log.encode())]):
                firsts = (incident.initiator,) if incident.initiator else incident.candidates
                found |= {(each.kind, each.type) for each in firsts if match(rule, incident, each)}
    return frozenset(found)


@pytest.mark.parametrize(("kind", "type"), FIRST)
def test_every_fault_line_has_a_rule(kind: str, type: str) -> None:
    assert (kind, NUMBERED.get((kind, type), type)) in explained()
