"""A whole verification: restart, readiness, exercise, load, comparison with the last stored result."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone

from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts.connection import Connection
from triage.verify.compare import compare, slower_start
from triage.verify.events import (
    Concluded,
    Event,
    Listener,
    PhaseReached,
    Sampled,
    ToolStarted,
    ignore,
)
from triage.verify.history import History
from triage.verify.load import engine_tool
from triage.verify.load.client import Client, Reply, client_of
from triage.verify.load.exercise import answer_before, changed_answers, exercise
from triage.verify.load.measure import measure, require_possible, shapes_of
from triage.verify.model import ByTool, Start, Verification
from triage.verify.options import Options
from triage.verify.service.activity import Watch
from triage.verify.service.deployed import service_of
from triage.verify.service.drain import drain
from triage.verify.service.model import Service
from triage.verify.service.readiness import check_running, restart_and_wait

__all__ = ["Options", "verify"]

DYING = 10.0  # seconds that an engine may take to end after the request that killed it
STARTING = "it answers, but its manager counts it as starting, and may end it when its time for that is up"


def verify(
    connection: Connection,
    deployment: Deployment,
    options: Options | None = None,
    on_event: Listener = ignore,
    *,
    service: Service | None = None,
    history: History | None = None,
) -> Verification:
    """Prove that a deployment starts, answers and how fast, and store the result.

    `service` replaces what `service_of` finds. What the service does wrong is the result: verdict
    "failed", and `start.died` when it ended. Raises RefusedError when it may not or cannot be restarted,
    UnreachableError when the host cannot be used, UsageError for loads that are too large.
    """
    options = options or Options()
    require_possible(options)
    service = service or service_of(connection, deployment)
    if service is None and options.restart:
        raise RefusedError(
            "restart",
            f"{deployment.name} on {connection.name}",
            "no unit runs it, and nobody told how it is started",
            "repeat with --no-restart, or start it as a systemd unit",
        )
    if options.tool:
        engine_tool.require(connection, deployment)
    client = client_of(
        connection, deployment, key=options.api_key, timeout=options.request_timeout, api=options.api
    )
    history = history or History()
    before: Verification | None = None
    notes: list[str] = []
    try:
        before = history.reference(connection.name, deployment.name)
        notes += history.lost_baseline(connection.name, deployment.name)
    except UnreachableError as error:
        notes.append(f"no comparison: {error}")
    run = _VerificationRun(connection, client, deployment, service, options, _remembering(before, on_event))
    result = run.measured(_blank(deployment, options))
    notes += changed_answers(result, before)
    notes = [*result.notes, *notes, *slower_start(result.start, before.start if before else None)]
    if result.verdict != "failed":
        comparison = compare(result, before, options.difference)
        result = replace(
            result,
            verdict=comparison.verdict,
            reason=comparison.reason,
            changes=comparison.changes,
            compared_with=before.at if before and comparison.changes else "",
        )
    result = replace(result, notes=tuple(notes))
    if options.store:
        try:
            history.append(connection.name, result)
        except UnreachableError as error:
            result = replace(result, notes=(*notes, f"not stored: {error}"))
    on_event(Concluded(result))
    return result


def _remembering(before: Verification | None, on_event: Listener) -> Listener:
    """Return a listener that is also told, for each phase, when it came the last time."""
    known = {phase.name: phase.at for phase in before.start.phases} if before else {}

    def told(event: Event) -> None:
        if isinstance(event, PhaseReached):
            event = replace(event, before=known.get(event.phase.name))
        on_event(event)

    return told


class _VerificationRun:
    """The part that talks to the service."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        deployment: Deployment,
        service: Service | None,
        options: Options,
        on_event: Listener,
    ) -> None:
        self._connection = connection
        self._deployment = deployment
        self._watch = Watch(connection)
        self._client = client
        self._service = service
        self._options = options
        self._on_event = on_event

    def measured(self, result: Verification) -> Verification:
        """`result` with everything that was seen; its verdict is "failed" or not given yet."""
        options, service = self._options, self._service
        if options.restart and service is not None:
            earlier = "" if service.state().dead else answer_before(self._client)
            if earlier:
                self._on_event(Sampled(earlier, before_restart=True))
            told = drain(self._client, self._deployment, options.drain, self._on_event)
            result = replace(result, notes=(told,) if told else ())
            readiness = restart_and_wait(
                service,
                self._client,
                timeout=options.timeout,
                restart_budget=options.restart_budget,
                on_event=self._on_event,
                watch=self._watch,
                patience=options.patience,
            )
        else:
            earlier = ""
            readiness = check_running(service, self._client, timeout=options.timeout, on_event=self._on_event)
        result = replace(result, start=readiness.start)
        if readiness.reply is None:
            return _failed(result, readiness.start.failure)
        result = self._exercised(result, readiness.reply, earlier)
        if result.verdict != "failed" and options.requests:
            found = measure(self._client, readiness.reply, options, self._on_event)
            paces = tuple({one.level: one.pace for one in found.metrics if one.pace}.values())
            result = replace(result, loads=found.loads, metrics=found.metrics, repeats=found.repeats)
            result = replace(result, notes=(*result.notes, *paces))
            if options.tool:
                result = self._by_tool(result)
        return self._still_there(result)

    def _by_tool(self, result: Verification) -> Verification:
        options, deployment, connection = self._options, self._deployment, self._connection
        shapes, name = shapes_of(options), engine_tool.require(connection, deployment).name
        self._on_event(ToolStarted(name, len(shapes)))
        stranger = self._client.models().error if options.api_key else ""  # the tool gets the key as well
        found = (
            ByTool(name, (), "", f"it was not started: {stranger}")
            if stranger
            else engine_tool.measure(
                connection, deployment, shapes, result.model, options.tool_timeout, options.api_key
            )
        )
        failure = self._client.redact(found.failure)
        notes = (f"{name} measured nothing: {failure}",) if failure else ()
        return replace(result, by_tool=replace(found, failure=failure), notes=(*result.notes, *notes))

    def _exercised(self, result: Verification, like: Reply, earlier: str) -> Verification:
        found = exercise(self._client, like, earlier)
        if found.sample:
            self._on_event(Sampled(found.sample, before_restart=False))
        result = replace(
            result,
            model=like.model,
            sample=found.sample,
            long_sample=found.long_sample,
            notes=(*result.notes, *found.notes),
        )
        return _failed(result, f"ready, but {found.failure}") if found.failure else result

    def _still_there(self, result: Verification) -> Verification:
        """The result, failed when the service has ended or was started again since it was ready."""
        if self._service is None:
            return result
        end = time.monotonic() + (DYING if result.verdict == "failed" else 0.0)
        while True:
            state = self._service.state()
            if state.dead or state.run != result.start.invocation:
                break
            if time.monotonic() >= end:
                starts = state.pending and state.active == "activating"
                return replace(result, notes=(*result.notes, STARTING)) if starts else result
            time.sleep(0.5)
        start = replace(result.start, died=True)
        return _failed(
            replace(result, start=start), f"it died after it was ready: {state.detail}; {result.reason}"
        )


def _blank(deployment: Deployment, options: Options) -> Verification:
    return Verification(
        at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        deployment=deployment.name,
        engine=deployment.engine,
        version=deployment.version,
        arguments=dict(deployment.arguments),
        patches=options.patches,
        model="",
        start=Start("", None, False, 0.0, ()),
        sample="",
        loads=(),
        metrics=(),
        verdict="inconclusive",
        reason="",
    )


def _failed(result: Verification, reason: str) -> Verification:
    return replace(result, verdict="failed", reason=reason.removesuffix("; "))
