"""What a number of NVIDIA's driver can explain: an Xid of a GPU, or an SXid of a switch between GPUs.

NVRM: Xid (PCI:0000:1b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link 10(...)
NVRM: Xid (PCI:0018:01:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 ...)
nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 28 LTSSM Fault Up
nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Severity 1 Engine instance 28 Sub-engine instance 00

Xids by NVIDIA's catalogue (docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), SXids by the
appendix of its fabric manager's guide.
"""

from __future__ import annotations

import re

from triage.logs.faults.weight import Weighed, Weight

_KNOWN = {
    45: "follows of another GPU error",
    154: "says what another GPU error asks for",
    **dict.fromkeys((63, 156, 160), "sets a bad part of memory aside, which ends no process"),
    **dict.fromkeys((92, 121), "tells of errors that were corrected"),
    93: "tells that the card's store of settings wears out, which ends no process",
    **dict.fromkeys((106, 107), "is a test message"),
    **dict.fromkeys(range(162, 166), "tells of the circuit that smooths power, which ends no process"),
}
"""Those that end no process by themselves."""

_LINKS = range(144, 151)
"""Those of NVLink 5, which say themselves whether they are fatal, and whether channels are closed (XC1)."""

_STALLS = (11004, 12028)
"""Non-fatal for the switch, but the traffic of the GPU behind the port stops."""

_PASSING = re.compile(r".{0,80}?\bNon-?fatal\b(?!.{0,20}\bXC1\b)", re.IGNORECASE)
_MORE = re.compile(r", (?:Severity \d|Data \{)")


def is_more(text: str, end: int) -> bool:
    """Whether a line of a switch, from behind the number, only adds numbers to the line before it."""
    return _MORE.match(text, end) is not None


def weigh(number: int, of_switch: bool, text: str, end: int) -> Weighed | None:
    """Weigh an Xid by its number and by what follows on its line; None for what can be a cause."""
    name = f"{'S' * of_switch}Xid {number}"
    if not of_switch and number in _KNOWN:
        return Weighed(Weight.CONSEQUENCE, f"{name} {_KNOWN[number]}")
    if (number not in _STALLS if of_switch else number in _LINKS) and _PASSING.match(text, end):
        weight = Weight.BENIGN if of_switch else Weight.ERROR
        return Weighed(weight, f"{name} says itself that it is not fatal")
    return None
