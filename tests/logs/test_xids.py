"""Which of the driver's numbered errors can be a cause, and which follow, pass or only add numbers."""

from __future__ import annotations

import pytest

from triage.logs import read_incidents
from triage.logs.model import Incident, LogSource

LINK = "NVLink: fatal error detected on link 3(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"
FAILED = f"NVRM: Xid (PCI:0000:41:00): 74, pid='<unknown>', name=<unknown>, {LINK}"
CLEANED = "NVRM: Xid (PCI:0000:41:00): 45, pid=4711, name=python3, Ch 00000008"
LOST = "NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."
SWITCH = "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): "
PASSING = f"{SWITCH}22013, Non-fatal, Link 46 Minion Link DLREQ interrupt"
STALLING = f"{SWITCH}12028, Non-fatal, Link 32 egress non-posted PRIV error (First)"
FATAL = f"{SWITCH}20034, Fatal, Link 30 LTSSM Fault Up"
NETIR = "NVRM: Xid (PCI:0000:4e:00): 149, pid=4711, name=python3, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x)"
RLW = "NVRM: Xid (PCI:0000:18:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008)"
CLOSED = RLW.replace("XC0", "XC1")


def incidents(*rows: str) -> tuple[Incident, ...]:
    text = "".join(f"[{74889 + number}.644138] {row}\n" for number, row in enumerate(rows))
    return read_incidents([LogSource("dmesg", text.encode())])


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ((PASSING, FAILED, CLEANED), "Xid 74"),
        ((FAILED, PASSING), "Xid 74"),
        ((FATAL, FAILED, CLEANED), "SXid 20034"),
        ((FAILED, FATAL), "Xid 74"),
        ((LOST, FATAL, FAILED), "Xid 79"),
        ((STALLING, CLEANED), "SXid 12028"),
        ((RLW, NETIR, CLEANED), "Xid 149"),
        ((RLW, FAILED), "Xid 74"),
        ((CLOSED, CLEANED), "Xid 145"),
    ],
)
def test_the_first_that_can_be_a_cause(rows: tuple[str, ...], first: str) -> None:
    (found,) = incidents(*rows)
    assert found.initiator is not None
    assert found.initiator.type == first


def test_what_passes_is_no_victim() -> None:
    (found,) = incidents(PASSING, FAILED)
    assert {fault.type: fault.role for fault in found.faults} == {
        "SXid 22013": "benign",
        "Xid 74": "initiator",
    }
    assert incidents(PASSING) == ()


def test_lines_that_add_numbers_are_one_with_the_error_before_them() -> None:
    number = STALLING.partition(",")[0]
    (found,) = incidents(
        STALLING,
        f"{number}, Severity 0 Engine instance 32 Sub-engine instance 00",
        f"{number}, Data {{0x00140004}}",
    )
    assert [fault.count for fault in found.faults] == [1]


def test_what_is_not_fatal_is_only_a_candidate() -> None:
    (found,) = incidents(RLW, CLEANED)
    assert found.initiator is None
    assert [fault.type for fault in found.candidates] == ["Xid 145", "Xid 45"]
