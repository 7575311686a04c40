"""A deployment's layout in words, where something tells it."""

from __future__ import annotations

from collections.abc import Iterable

from triage.evidence.model import Deployment, Layout
from triage.logs.model import Incident


def layout_in_words(deployment: Deployment, incidents: Iterable[Incident]) -> str:
    """`tp8 pp2`, `one rank`; "" where no command line and no log tells, or where the log names ranks."""
    if deployment.layout != Layout():
        return str(deployment.layout)
    told = deployment.engine and (deployment.arguments or deployment.model)
    ranked = any(fault.ranks for each in incidents for fault in (*each.faults, *each.candidates))
    return str(deployment.layout) if told and not ranked else ""
