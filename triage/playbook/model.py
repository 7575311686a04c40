"""Plain values of a playbook run: its input, its events and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from triage.common.errors import ExitCode
from triage.playbook.schema import MainStep, Verb

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Playbook:
    """A playbook that was read from `file` and checked."""

    file: str
    name: str
    description: str
    vars: Mapping[str, Any]
    steps: tuple[MainStep, ...]


@dataclass(frozen=True)
class ActionResult:
    """The result of an action. `data` is JSON, `summary` one line, `detail` text for people (a diff, a
    report).
    """

    ok: bool
    data: Mapping[str, Any]
    summary: str
    detail: str = ""


Action = Callable[[str, Mapping[str, Any]], ActionResult]  # host, arguments


@dataclass(frozen=True)
class StepStarted:
    step: str
    do: Verb
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Skipped:
    step: str
    reason: str


@dataclass(frozen=True)
class ConsentAsked:
    """The question whether a step may run. Whoever is asked receives this event."""

    step: str
    do: Verb
    host: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class StepRefused:
    step: str


@dataclass(frozen=True)
class Retried:
    """Attempt `attempt` of `attempts` failed; the next one follows after `seconds`."""

    step: str
    attempt: int
    attempts: int
    seconds: float
    reason: str


@dataclass(frozen=True)
class Done:
    step: str
    summary: str
    detail: str


@dataclass(frozen=True)
class Failed:
    """A step failed. `next` is the next command to run, "" if there is none."""

    step: str
    reason: str
    detail: str = ""
    next: str = ""


Event = StepStarted | Skipped | ConsentAsked | StepRefused | Retried | Done | Failed


@dataclass(frozen=True)
class StepOutcome:
    """The outcome of one step. `after` names the failed step to whose `on_failure` it belongs."""

    step: str
    do: Verb
    status: Literal["done", "skipped", "failed", "refused"]
    summary: str
    exit_code: ExitCode = ExitCode.OK
    next: str = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    data: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    attempts: int = 0
    after: str = ""

    @property
    def ends(self) -> bool:
        """Return whether the run ends here."""
        return self.status in ("failed", "refused")


@dataclass(frozen=True)
class Result:
    """The outcome of a run: that of the step that ended it, or `done`."""

    playbook: str
    file: str
    host: str
    variables: Mapping[str, Any]
    status: Literal["done", "failed", "refused"]
    reason: str
    exit_code: ExitCode
    outcomes: tuple[StepOutcome, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as `triage.run/1`."""
        return {
            "schema": "triage.run/1",
            "playbook": {"name": self.playbook, "file": self.file},
            "host": self.host,
            "variables": dict(self.variables),
            "status": self.status,
            "reason": self.reason,
            "exit_code": int(self.exit_code),
            "steps": [_outcome(outcome) for outcome in self.outcomes],
        }


def _outcome(outcome: StepOutcome) -> dict[str, Any]:
    return {
        "name": outcome.step,
        "do": outcome.do,
        "status": outcome.status,
        "summary": outcome.summary,
        "exit_code": int(outcome.exit_code),
        "next": outcome.next,
        "arguments": dict(outcome.arguments),
        "attempts": outcome.attempts,
        "after": outcome.after,
        "data": dict(outcome.data),
    }
