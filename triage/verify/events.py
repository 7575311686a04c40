"""What a verification reports while it runs. Text in events is untrusted: whoever prints it escapes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from triage.verify.model import Metrics, StartPhase, Verification


@dataclass(frozen=True)
class Draining:
    """Requests of users that run, and the seconds that the restart still waits for them at most."""

    requests: int
    left: float


@dataclass(frozen=True)
class Restarting:
    service: str


@dataclass(frozen=True)
class ServiceStarted:
    """A new run of the service; `attempt` counts from 1, more than once where its manager restarts it."""

    run: str
    pid: int | None
    attempt: int


@dataclass(frozen=True)
class LogLine:
    """One line that the service logged, at most 64 KiB, without secrets."""

    text: str


@dataclass(frozen=True)
class PhaseReached:
    """The engine logged the first line of a phase; `before`: seconds after the restart, the last time."""

    phase: StartPhase
    before: float | None = None


@dataclass(frozen=True)
class NotYet:
    """A probe while it starts: what still speaks against its being ready."""

    reason: str


@dataclass(frozen=True)
class Silent:
    """No line came for `seconds`, and what its processes do meanwhile, in words."""

    seconds: float
    doing: str


@dataclass(frozen=True)
class Died:
    reason: str


@dataclass(frozen=True)
class Ready:
    """Ready line or health state, and a real completion. `seconds` after the restart."""

    seconds: float


@dataclass(frozen=True)
class Sampled:
    """The deterministic completion, before the restart or after."""

    text: str
    before_restart: bool


@dataclass(frozen=True)
class LoadStarted:
    concurrency: int
    requests: int
    repeat: int  # from 1
    repeats: int  # that there are at least
    rate: float = 0.0  # requests/s; 0: the next when one ends


@dataclass(frozen=True)
class LoadEnded:
    metrics: Metrics
    repeat: int
    repeats: int


@dataclass(frozen=True)
class ToolStarted:
    """The engine's own benchmark runs, with as many loads."""

    tool: str
    loads: int


@dataclass(frozen=True)
class Concluded:
    verification: Verification


Event = (
    Draining
    | Restarting
    | ServiceStarted
    | LogLine
    | PhaseReached
    | NotYet
    | Silent
    | Died
    | Ready
    | Sampled
    | LoadStarted
    | LoadEnded
    | ToolStarted
    | Concluded
)
Listener = Callable[[Event], None]


def ignore(event: Event) -> None:
    """The listener of those who do not want to know."""
