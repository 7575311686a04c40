"""Waits after a restart until the service has really answered, or tells why it has not.

Ready is: in this run of the service, the engine's own ready line (or, where its log is silent, its health
state), and a completion that came back in full. Nothing else is asked: /v1/models and "Application
startup complete" come too early, and a /health may always say 200.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass

from triage.verify.events import (
    Died,
    Listener,
    LogLine,
    NotYet,
    PhaseReached,
    Ready,
    Restarting,
    ServiceStarted,
    Silent,
)
from triage.verify.load.client import Client, Reply
from triage.verify.model import Start
from triage.verify.service.activity import Watch
from triage.verify.service.model import Service, ServiceState, lines_of
from triage.verify.service.phases import StartLog

PROMPT = "The capital of France is"
POLL = 0.5  # seconds between two looks at the service's state
PROBE = 2.0  # seconds between two probes of its endpoint
REFUSALS = 3  # failed completions after the ready line that end the wait
SILENCE = 30.0  # seconds without a line after which it is looked at what the service does, and between looks
BRIEFEST = 1.0  # instead, where patience is short: a tenth of it, and no less than this
LAST_WORDS = 5.0  # seconds that are given to the log of a service that has ended
QUIET = 0.7  # seconds
FIRST_TOKENS = 4
UNHEARD = "completion: no connection"  # nobody listens at its address


@dataclass(frozen=True)
class Readiness:
    """`reply` is the first completion, which also says how the server wants to be asked; None without one."""

    start: Start
    reply: Reply | None = None


def restart_and_wait(
    service: Service,
    client: Client,
    *,
    timeout: float,
    restart_budget: int,
    on_event: Listener,
    watch: Watch | None = None,
    patience: float = 0.0,
) -> Readiness:
    """Restart the service and follow it until it is ready, dies, or `timeout` seconds are over.

    `restart_budget` is how many more runs of it are followed when its manager starts it again. With
    `watch` it is looked at what a silent service does; `patience` seconds of silence in which it was seen
    to do nothing at all end the wait, 0 for never.
    """
    return _Wait(service, client, timeout, on_event, watch, patience).restart(restart_budget)


def check_running(
    service: Service | None, client: Client, *, timeout: float, on_event: Listener
) -> Readiness:
    """Whether a service that was not restarted answers; its log is not read.

    One that runs and does not listen yet is still starting, and has `timeout` seconds for that.
    """
    return _Wait(service, client, timeout, on_event).check()


class _Wait:
    def __init__(
        self,
        service: Service | None,
        client: Client,
        timeout: float,
        on_event: Listener,
        watch: Watch | None = None,
        patience: float = 0.0,
    ) -> None:
        self._service = service
        self._client = client
        self._timeout = timeout
        self._on_event = on_event
        self._began = time.monotonic()
        self._restarted = False
        self._log = StartLog()
        self._state = ServiceState("", "", None)
        self._heard = 0.0  # when the last line of the log came
        self._refusals = 0
        self._not_yet = ""
        self._watch = watch
        self._patience = patience
        self._pause = min(SILENCE, max(BRIEFEST, patience / 10)) if patience else SILENCE
        self._run_began = 0.0
        self._looked = 0.0  # when the last look was
        self._worked = 0.0  # when it was last known to do something
        self._doing = ""  # what it does, in words

    def restart(self, budget: int) -> Readiness:
        service = self._service
        assert service is not None
        seen = {service.state().run}
        self._on_event(Restarting(service.name))
        service.restart()
        self._restarted = True
        for attempt in range(1, budget + 2):
            failure = self._await_run(service, seen)
            if failure:
                return Readiness(self._start(ready=False, failure=failure, died=self._state.dead))
            seen.add(self._state.run)
            self._log, self._heard = StartLog(), 0.0
            self._run_began = self._looked = self._worked = self._elapsed()
            self._on_event(ServiceStarted(self._state.run, self._state.pid, attempt))
            readiness = self._follow(service)
            if not (readiness.start.died and self._state.restarting and attempt <= budget):
                break
        return readiness

    def check(self) -> Readiness:
        while True:
            if self._service is not None:
                self._state = self._service.state()
                if self._state.dead:
                    return self._failed(f"it does not run: {self._state.detail}", died=True)
            reply = self._probe(by_health=False)
            if reply:
                return self._ready(reply)
            starts = self._service is not None and self._not_yet.startswith(UNHEARD)
            if not starts or self._elapsed() >= self._timeout:
                return self._failed(self._not_yet)
            time.sleep(PROBE)

    def _await_run(self, service: Service, seen: set[str]) -> str:
        """Wait until the service has a run that was not seen yet; returns why there is none."""
        while True:
            self._state = state = service.state()
            if state.run and state.run not in seen:
                return ""
            if state.dead and not state.pending and not state.restarting:
                return f"it was not started: {state.detail}"
            if self._elapsed() >= self._timeout:
                return f"no new start within {self._timeout:.0f} s: {state.detail}"
            time.sleep(POLL / 2)

    def _follow(self, service: Service) -> Readiness:
        run = self._state.run
        polled = probed = -POLL
        with closing(self._lines(service, run)) as batches:
            for lines in batches:
                for line in lines:
                    self._read(line)
                now = self._elapsed()
                if now - polled < POLL:
                    continue
                polled = now
                if self._gone(service, run):
                    self._read_last_words(batches)
                    return self._failed(
                        f"died {now:.0f} s after the restart: {self._state.detail}", died=True
                    )
                if self._hangs(now):
                    return self._failed(f"it hangs: no line for {self._silence(now):.0f} s, {self._doing}")
                if (self._log.ready or self._log.health_counts) and now - probed >= PROBE:
                    probed = now
                    reply = self._probe(by_health=not self._log.ready)
                    if reply and not self._gone(service, run):
                        return self._ready(reply)
                    if self._refusals >= REFUSALS:
                        return self._failed(f"says that it is ready, and does not answer: {self._not_yet}")
        last = self._log.phases[-1].name if self._log.phases else "nothing"
        reached = f"not ready after {self._timeout:.0f} s; the last that it logged of its start: {last}"
        return self._failed("; ".join(filter(None, (reached, self._not_yet, self._doing))))

    def _hangs(self, now: float) -> bool:
        """Look at what a silent service does; whether it was seen to do nothing for too long."""
        if self._watch is None or self._log.ready:
            return False
        if min(self._silence(now), now - self._looked) < self._pause:
            return False
        self._looked = now
        activity = self._watch.look(self._state.pids, now)
        if activity is None or not activity.idle:
            self._worked = now
        if activity is None:
            return False
        self._doing = str(activity)
        self._on_event(Silent(self._silence(now), self._doing))
        return 0 < self._patience <= min(now - self._worked, self._silence(now))

    def _silence(self, now: float) -> float:
        return now - max(self._heard, self._run_began)

    def _gone(self, service: Service, run: str) -> bool:
        """Whether the run that is followed is over."""
        self._state = service.state()
        if self._state.run not in ("", run):  # systemd forgets the run of a unit that ended well
            detail = f"it was started again meanwhile; {self._state.detail}"
            self._state = ServiceState(self._state.active, run, None, detail, restarting=True)
        return self._state.dead

    def _lines(self, service: Service, run: str) -> Generator[tuple[str, ...], None, None]:
        """Batches of log lines, at least one a second, until the time is up; the log may end before."""
        left = self._timeout - self._elapsed()
        yield ()
        if left > 0:
            yield from lines_of(service.follow(run, left))
        while self._elapsed() < self._timeout:
            time.sleep(min(1.0, max(0.0, self._timeout - self._elapsed())))
            yield ()

    def _read_last_words(self, batches: Iterator[tuple[str, ...]]) -> None:
        """What a service that has ended still had to say: until its log, once it spoke, is quiet."""
        died = self._elapsed()
        for lines in batches:
            for line in lines:
                self._read(line)
            quiet_since = max(died, self._heard)
            patience = QUIET if self._heard else LAST_WORDS
            if self._elapsed() > min(quiet_since + patience, died + LAST_WORDS):
                return

    def _read(self, line: str) -> None:
        self._heard, self._doing = self._elapsed(), ""
        self._on_event(LogLine(self._client.redact(line)))
        phase = self._log.feed(line, self._elapsed())
        if phase:
            self._on_event(PhaseReached(phase))

    def _probe(self, by_health: bool) -> Reply | None:
        """A completion that came back in full, or None and the reason in `_not_yet`."""
        self._client.pids = self._state.pids or self._client.pids
        health = self._client.health(self._state.pid)
        if health.foreign:
            self._not_yet = f"{self._client.address} is answered by {health.foreign}"
        elif by_health and health.status != 200:
            self._not_yet = f"/health: {health.status or health.error}"
        else:
            left = max(1.0, self._timeout - self._elapsed())
            reply = self._client.complete((PROMPT,), FIRST_TOKENS, timeout=left)
            error = reply.requests[0].error
            if not error:
                return reply
            self._not_yet = f"completion: {error}"
            self._refusals += self._log.ready and not error.startswith("no connection")
        self._on_event(NotYet(self._not_yet))
        return None

    def _ready(self, reply: Reply) -> Readiness:
        self._on_event(Ready(self._elapsed()))
        return Readiness(self._start(ready=True), reply)

    def _failed(self, failure: str, died: bool = False) -> Readiness:
        if died:
            self._on_event(Died(failure))
        return Readiness(self._start(ready=False, failure=failure, died=died))

    def _start(self, *, ready: bool, failure: str = "", died: bool = False) -> Start:
        return Start(
            restarted=self._restarted,
            invocation=self._state.run,
            pid=self._state.pid,
            ready=ready,
            seconds=round(self._elapsed(), 3),
            phases=self._log.phases,
            failure=failure,
            died=died,
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self._began
