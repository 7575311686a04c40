"""A service of a host found, verified by one at a time, and diagnosed where its start died."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from triage.common.errors import TriageError, UnreachableError
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.truncation import NotingCuts
from triage.patching.change_status import not_running
from triage.verify.events import Event, Listener, Restarting, ServiceStarted, ignore
from triage.verify.model import Verification
from triage.verify.options import Options
from triage.workflows import diagnose, verify

if TYPE_CHECKING:
    from triage.evidence.model import Deployment
    from triage.hosts.connection import Connection
    from triage.workflows.diagnose import Knowledge, Report


@dataclass(frozen=True)
class VerifiedUnit:
    """The verification, and the diagnosis of the run that it started when that run died.

    `behind` are the patches that are applied to the service's source, and that it was started before;
    looked for only where it was not restarted.
    """

    verification: Verification
    diagnosis: Report | None = None
    behind: tuple[str, ...] = ()


def verify_unit(
    connection: Connection,
    unit: str,
    options: Options,
    load: Callable[[], Knowledge],
    on_event: Listener = ignore,
    on_interrupt: Callable[[str], None] = lambda done: None,
) -> VerifiedUnit:
    """Verify the service of a unit. `load` is asked for rules when there is something to diagnose.

    `on_interrupt` is told at Ctrl-C what has become of the service. Raises RefusedError while somebody
    else verifies the same service.
    """
    from triage.verify.service.exclusion import alone

    evidence = NotingCuts(LiveEvidence(connection))
    with evidence.in_errors():
        deployment = discover(evidence, unit)[0]
    options = replace(options, patches=_patches_in_place(connection, deployment))
    with alone(connection, deployment) as note, _told_when_cut(on_event, on_interrupt) as listener:
        result = verify.verify(connection, deployment, options, listener)
    notes = (*deployment.disagreements, *evidence.notes, *filter(None, [note]))
    result = replace(result, notes=(*result.notes, *notes))
    if result.start.died:
        report = diagnose.diagnose(LiveEvidence(connection), load(), unit or deployment.unit)
        return VerifiedUnit(result, report)
    return VerifiedUnit(result)


def patches_behind(connection: Connection, unit: str) -> tuple[str, ...]:
    """The patches that are applied to the service's source, and that it was started before."""
    from triage.patching import transaction
    from triage.patching.transaction import HostTree

    try:
        deployment = discover(LiveEvidence(connection), unit)[0]
        tree = HostTree(connection, (), deployment.python, os.environ.get("TRIAGE_LEDGER", ""))
        return not_running(tree.agent, transaction.status(tree), deployment)
    except TriageError:  # the verification stands without it
        return ()


def _patches_in_place(connection: Connection, deployment: Deployment) -> tuple[str, ...]:
    """Ids of the patches that the ledger has for the tree that serves; none where it cannot be read."""
    from triage.patching import transaction

    try:
        changes = transaction.status(transaction.HostTree(connection, ()))
    except TriageError:
        return ()
    root = f"{deployment.package_root}/"
    here = (change for change in changes if any(file.path.startswith(root) for file in change.files))
    return tuple(sorted({change.patch for change in here if change.state == "applied"}))


@contextmanager
def _told_when_cut(on_event: Listener, on_interrupt: Callable[[str], None]) -> Iterator[Listener]:
    """Ctrl-C and a lost connection say what has become of the service; `on_event` gets every event."""
    done = "the service was not restarted"

    def listener(event: Event) -> None:
        nonlocal done
        if isinstance(event, Restarting):
            done = f"{event.service} was to be restarted, and no new start was seen yet"
        elif isinstance(event, ServiceStarted):
            done = f"the service was restarted (pid {event.pid}), and goes on by itself"
        on_event(event)

    try:
        yield listener
    except UnreachableError as error:
        error.happened += f"; {done}"
        raise
    except KeyboardInterrupt:
        on_interrupt(done)
        raise
