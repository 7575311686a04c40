"""Requests of users that a restart would break off: how many there are, and a wait until they have ended.

No engine can be told to refuse new ones and go on with the others, so the wait is for a moment without any.
What becomes of those that run when it is told to stop is the engine's.
"""

from __future__ import annotations

import time

from triage.common.errors import RefusedError, UnreachableError
from triage.engines import engine_named
from triage.evidence.model import Deployment
from triage.hosts.connection import Connection
from triage.verify.events import Draining, Listener
from triage.verify.load.client import Client, client_of

LOOK = 1.0  # seconds between two looks


def outlook(connection: Connection, deployment: Deployment, key: str = "") -> str:
    """What who is asked for a restart should know, "" where no request runs: ` 3 requests run there now`."""
    try:
        count = running(client_of(connection, deployment, key=key))
    except (RefusedError, UnreachableError):
        return ""
    return f" {requests(count)} there now; {fate(deployment)}" if count else ""


def running(client: Client) -> int:
    """How many requests it has, as far as it can be asked and tells."""
    try:
        return client.running().count or 0
    except UnreachableError:
        return 0


def drain(client: Client, deployment: Deployment, patience: float, on_event: Listener) -> str:
    """Wait at most `patience` seconds until no request runs. What is to be said of it, "" for nothing."""
    began = time.monotonic()
    most = count = running(client)
    while count:
        left = patience - (time.monotonic() - began)
        if left <= 0:
            return f"{requests(count)} had not ended when it was restarted; {fate(deployment)}"
        on_event(Draining(count, left))
        time.sleep(min(LOOK, left))
        count = running(client)
        most = max(most, count)
    waited = time.monotonic() - began
    return f"the restart waited {waited:.0f} s for {requests(most)} to end" if most else ""


def requests(count: int) -> str:
    return f"{count} running requests" if count > 1 else f"{count} running request"


def fate(deployment: Deployment) -> str:
    """What the engine makes of requests that run when it is told to stop."""
    engine = engine_named(deployment.engine)
    if engine.drain.waits:
        return f"{engine.title} lets them end first, for as long as its manager waits for it to stop"
    seconds = deployment.arguments.get(engine.drain.seconds, "0")
    if engine.drain.seconds and seconds.isdecimal() and len(seconds) < 10 and int(seconds):
        return f"{engine.title} gives them {int(seconds)} s (--{engine.drain.seconds})"
    return "a restart breaks them off"
