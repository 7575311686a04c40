from __future__ import annotations

from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost
from triage.common.errors import UnreachableError
from triage.evidence.cases.case import read_case, write_case
from triage.evidence.catalogue import GpuInventory, Processes, ReadFile, UnitProperties
from triage.evidence.model import Evidence
from triage.evidence.recorded import RecordedEvidence
from triage.evidence.truncation import TOLD, NotingCuts
from triage.hosts import Output

CUT = Output(None, b"Id=kimi.service\n", cut="bytes")


def test_an_answer_that_was_cut_is_a_note_and_a_whole_one_is_none(host: ScriptedHost) -> None:
    host.commands |= {"systemctl": CUT, "nvidia-smi": Output(None, b"", cut="time"), "ps": b"x"}
    host.files["/etc/motd"] = b"hello"
    evidence = NotingCuts(host.evidence)
    for query in (
        UnitProperties("kimi"),
        UnitProperties("kimi"),
        GpuInventory(),
        Processes(),
        ReadFile("/etc/motd"),
    ):
        evidence.ask(query)
    assert evidence.notes == (
        "unit-properties kimi: the answer was cut (it is longer than 1 MiB); "
        "it was asked to read the state, result and command of one service",
        f"gpu-inventory: the answer was cut (no end of it within {GpuInventory.timeout:g} s); "
        f"it was asked to {GpuInventory.purpose}",
    )


def test_a_case_says_the_same(host: ScriptedHost, tmp_path: Path) -> None:
    host.commands["systemctl"] = CUT
    live = host.evidence

    def notes(evidence: Evidence) -> tuple[str, ...]:
        noting = NotingCuts(evidence)
        noting.ask(UnitProperties("kimi"))
        return noting.notes

    told = notes(live)
    write_case(tmp_path / "case", live)
    assert notes(RecordedEvidence(read_case(tmp_path / "case"))) == told != ()


def test_of_many_only_the_number_is_told_and_no_name_is_endless(host: ScriptedHost) -> None:
    host.commands["systemctl"] = CUT
    evidence = NotingCuts(host.evidence)
    for number in range(TOLD + 3):
        evidence.ask(UnitProperties(f"{number}-" + "x" * 10_000))
    assert len(evidence.notes) == TOLD + 1
    assert evidence.notes[-1] == "3 more answers were cut"
    assert max(map(len, evidence.notes)) < 400


def test_an_error_says_what_was_cut_before(host: ScriptedHost) -> None:
    host.commands["systemctl"] = CUT
    evidence = NotingCuts(host.evidence)
    evidence.ask(UnitProperties("kimi"))
    said = "^finding it on gpu01: none; unit-properties kimi: the answer was cut"
    with pytest.raises(UnreachableError, match=said), evidence.in_errors():
        raise UnreachableError("finding it on", "gpu01", "none", "ls")
