"""Each family is told by its own cases, and by none of its near misses."""

from __future__ import annotations

import pytest

from triage.logs.faults.frames import culprit
from triage.logs.model import Fault, Frame, Position
from triage.rules.families.load import KNOWLEDGE, load_families
from triage.rules.families.place import placed
from triage.rules.families.schema import FamilyCase
from triage.rules.schema import Category

FAMILIES = load_families()
CASES = [(family.id, case) for family in FAMILIES for case in family.cases]
NEAR = [(family.id, case) for family in FAMILIES for case in family.near_misses]


def fault_of(case: FamilyCase) -> Fault:
    frames = tuple(Frame(file, 1, "f") for file in case.frames)
    kind = "error" if case.exception == "error" else "exception"
    at = Position("log", 1)
    return Fault(kind, case.exception or "error", case.message, at, frames=frames, frame=culprit(frames))


@pytest.mark.parametrize(("family", "case"), CASES)
def test_a_case_belongs_first_to_its_family(family: str, case: FamilyCase) -> None:
    found = placed(fault_of(case), case.phase, FAMILIES)
    assert [one.family.id for one in found][:1] == [family], [(one.family.id, one.weight) for one in found]


@pytest.mark.parametrize(("family", "case"), NEAR)
def test_a_near_miss_does_not(family: str, case: FamilyCase) -> None:
    assert family not in [one.family.id for one in placed(fault_of(case), case.phase, FAMILIES)]


def test_every_category_has_a_family() -> None:
    assert {family.category for family in FAMILIES} == set(Category.__args__) - {"unknown"}


def test_a_family_is_its_file() -> None:
    assert [family.id for family in FAMILIES] == sorted(path.stem for path in KNOWLEDGE.glob("*.yaml"))
