"""A whole verification: restart, readiness, exercise, load, comparison with the last stored result."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timezone
from itertools import cycle, islice

from triage.errors import RefusedError, UnreachableError
from triage.evidence.model import Deployment
from triage.hosts.connection import Connection
from triage.verify import tool
from triage.verify.activity import Watch
from triage.verify.client import Client, Reply, client_of
from triage.verify.compare import compare, slower_start
from triage.verify.drain import drain
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
from triage.verify.measure import measure, shapes_of
from triage.verify.model import ByTool, Start, Verification
from triage.verify.options import Options
from triage.verify.readiness import PROMPT, check_running, restart_and_wait
from triage.verify.service import Service, service_of

__all__ = ["Options", "verify"]

OTHER_PROMPT = "Water boils at a temperature of"
LONG_WORDS = ("One", "morning", "the", "river", "rose", "over", "its", "banks,", "and", "nobody", "slept.")
LONG_PROMPTS = (2000, 300)  # words; the next where one is refused
HARMLESS = ("status 400", "status 413", "status 422", "status 501", "timed out")  # it is asked for much
SAMPLE_TOKENS = 16
DYING = 10.0  # seconds that an engine may take to end after the request that killed it
SAMPLE_PATIENCE = 15.0  # seconds that the service may take to answer before it is restarted


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
    UnreachableError when the host cannot be used.
    """
    options = options or Options()
    service = service or service_of(connection, deployment)
    if service is None and options.restart:
        raise RefusedError(
            "restart",
            f"{deployment.name} on {connection.name}",
            "no unit runs it, and nobody told how it is started",
            "repeat with --no-restart, or start it as a systemd unit",
        )
    if options.tool:
        tool.require(connection, deployment)
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
    run = _Run(connection, client, deployment, service, options, _remembering(before, on_event))
    result = run.measured(_blank(deployment, options))
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
    """The same listener; of each phase it is also told when it came the last time."""
    known = {phase.name: phase.at for phase in before.start.phases} if before else {}

    def told(event: Event) -> None:
        if isinstance(event, PhaseReached):
            event = replace(event, before=known.get(event.phase.name))
        on_event(event)

    return told


class _Run:
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
            earlier = self._sample_before(service)
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
        result = self._exercised(replace(result, model=readiness.reply.model), readiness.reply, earlier)
        if result.verdict != "failed" and options.requests:
            found = measure(self._client, readiness.reply, options, self._on_event)
            paces = tuple({one.level: one.pace for one in found.metrics if one.pace}.values())
            result = replace(result, loads=found.loads, metrics=found.metrics, repeats=found.repeats)
            result = replace(result, notes=(*result.notes, *paces))
            if options.tool:
                result = replace(result, by_tool=self._by_tool(result.model))
        return self._still_there(result)

    def _by_tool(self, model: str) -> ByTool:
        options, deployment, connection = self._options, self._deployment, self._connection
        shapes = shapes_of(options)
        self._on_event(ToolStarted(tool.require(connection, deployment), len(shapes)))
        found = tool.measure(connection, deployment, shapes, model, options.tool_timeout, options.api_key)
        return replace(found, failure=self._client.redact(found.failure))

    def _sample_before(self, service: Service) -> str:
        """What the running service answers, "" when it does not."""
        if service.state().dead:
            return ""
        try:
            reply = self._client.complete((PROMPT,), SAMPLE_TOKENS, timeout=SAMPLE_PATIENCE)
        except UnreachableError:
            return ""
        text = "" if reply.requests[0].error else reply.requests[0].text
        if text:
            self._on_event(Sampled(text, before_restart=True))
        return text

    def _exercised(self, result: Verification, like: Reply, earlier: str) -> Verification:
        """The same question twice, then with another at the same time: some faults need the second."""
        texts = []
        for prompts in ((PROMPT,), (PROMPT,), (PROMPT, OTHER_PROMPT)):
            reply = self._client.complete(prompts, SAMPLE_TOKENS, like=like, concurrency=len(prompts))
            for one in reply.requests:
                if one.error:
                    which = "one request" if len(prompts) == 1 else "two requests at once"
                    return _failed(result, f"ready, but {which} failed: {one.error}")
            texts.append(reply.requests[0].text)
        self._on_event(Sampled(texts[0], before_restart=False))
        notes = list(result.notes)
        if texts[1] != texts[0]:
            notes.append("the same question at temperature 0 was answered differently twice")
        elif texts[2] != texts[0]:
            notes.append("the answer at temperature 0 changes when another request runs beside it")
        if earlier and earlier != texts[0]:
            notes.append(f"before the restart the answer was {earlier!r}, now it is {texts[0]!r}")
        broken, more = self._harder(like)
        notes += more
        if broken:
            return _failed(replace(result, sample=texts[0], notes=tuple(notes)), f"ready, but {broken}")
        named = reply.requests[0].model
        if named != like.model:
            notes.append(f"it was asked for model {like.model} and answered as {named or 'none'}")
        return replace(result, sample=texts[0], notes=tuple(notes))

    def _harder(self, like: Reply) -> tuple[str, list[str]]:
        """What is wrong with numbers inside and with a long prompt, "" for nothing, and what is to be noted.

        A prompt that crosses chunks and stages finds faults that a short one does not reach. A server that
        refuses to be asked so, or takes long, has no fault.
        """
        told = self._client.complete((PROMPT,), SAMPLE_TOKENS, like=like, logprobs=True).requests[0]
        if told.finite is False:
            return "the probabilities of its tokens are no numbers (NaN or infinite)", []
        if told.error and not told.error.startswith(HARMLESS):
            return f"asked for the probabilities of its tokens it failed: {told.error}", []
        error = ""
        for words in LONG_PROMPTS:
            prompt = " ".join(islice(cycle(LONG_WORDS), words))
            error = self._client.complete((prompt,), SAMPLE_TOKENS, like=like).requests[0].error
            if not error:
                return "", []
            if not error.startswith(HARMLESS):
                return f"a prompt of {words} words failed: {error}", []
        return "", [f"no long prompt was answered: {error}"]

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
                return result
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
