"""Until a service serves or has died, whoever started it, without doing anything to it."""

from __future__ import annotations

import time

from triage.verify.events import ignore
from triage.verify.load.client import Client
from triage.verify.model import Start
from triage.verify.service.model import Service
from triage.verify.service.readiness import PROBE, check_running


def wait_until_settled(service: Service | None, client: Client, timeout: float) -> Start:
    """How far it came: `ready`, `died`, or neither of them within `timeout` seconds.

    Without a `service` nobody can tell whether it has died. Raises UnreachableError when the host is lost.
    """
    end = time.monotonic() + timeout
    while True:
        left = max(0.0, end - time.monotonic())
        start = check_running(service, client, timeout=left, on_event=ignore).start
        if start.ready or start.died or time.monotonic() + PROBE >= end:
            return start
        time.sleep(PROBE)
