from __future__ import annotations

from triage.evidence.model import Deployment, Origin
from triage.hosts.inventory.model import Host
from triage.report.fleet import NAMED, lines
from triage.workflows.diagnose import Report
from triage.workflows.fleet import FleetResult, HostOutcome

READY = ("it became ready",)


def well(name: str, *notes: str) -> HostOutcome[Report]:
    return HostOutcome(
        Host(name), Report(Origin("host", name), Deployment("kimi"), (), notes=notes, health=READY)
    )


def shown_of(*outcomes: HostOutcome[Report]) -> list[str]:
    return [line.plain for line in lines(FleetResult(outcomes))]


def test_what_was_not_read_of_hosts_that_seem_well_is_told_once() -> None:
    cut = "service-units: the answer was cut"
    shown = shown_of(well("gpu01", cut), well("gpu02"), well("gpu03", cut, "\x1b[31m"))
    assert shown[:2] == ["no incident: 3 hosts: gpu01, gpu02, gpu03", f"note: 2 hosts: gpu01, gpu03: {cut}"]
    assert shown[2].startswith("note: gpu03: ")
    assert "\x1b" not in shown[2]


def test_the_notes_of_many_hosts_do_not_bury_what_is_below() -> None:
    shown = shown_of(*(well(f"gpu{at}", f"note {at}") for at in range(NAMED + 3)))
    assert len(shown) == NAMED + 3
    assert shown[-2] == "note: and 3 more notes"
