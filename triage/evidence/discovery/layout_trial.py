"""The drop-in of a unit whose layouts `triage bench` tries, and the timer that takes it away."""

from __future__ import annotations

import re

from triage.evidence.catalogue.systemd import Unit

FILE = "zz-triage-layout.conf"  # read after an administrator's own, whose last word would count else


def timer_of(unit: str) -> str:
    """Name of the timer on the host, and of the service that it starts, without what kind it is."""
    return f"triage-restore-{re.sub('[^A-Za-z0-9]', '_', unit)}"


def ending(unit: str) -> str:
    """The command that has the unit as it was at once."""
    return f"systemctl start {timer_of(unit)}.service"


def on_trial(unit: Unit) -> str:
    """What is to be said of a unit that runs with a layout on trial, "" of any other."""
    if not any(path.endswith(f".d/{FILE}") for path in unit.properties.get("DropInPaths", "").split()):
        return ""
    what = f"{unit.id} has the command of a layout that a triage bench tries, or left when it was cut"
    return f"{what}; the host takes it away by itself in a while, and at once by: {ending(unit.id)}"
