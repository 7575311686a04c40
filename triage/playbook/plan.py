"""Shows what a playbook would do, without doing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from triage.playbook.check import HOST
from triage.playbook.model import Playbook
from triage.playbook.schema import Retry, Step, Verb
from triage.playbook.steps import argument, wanted
from triage.playbook.templates import expression_names, template_names

Runs = Literal["yes", "no", "decided at run time"]


@dataclass(frozen=True)
class PlannedStep:
    """One planned step. `runs` says whether `when` holds; `open` names the arguments that are decided at run
    time.

    Those arguments are shown as they stand in the file. `after` names the step whose failure this one
    follows.
    """

    name: str
    do: Verb
    runs: Runs
    when: str
    arguments: Mapping[str, Any]
    open: tuple[str, ...]
    consent: bool
    retry: Retry | None
    after: str = ""

    def as_json(self) -> dict[str, Any]:
        retry = None if self.retry is None else self.retry.model_dump()
        return {**vars(self), "arguments": dict(self.arguments), "open": list(self.open), "retry": retry}


@dataclass(frozen=True)
class PlannedRun:
    """What a run of a playbook on a host would do."""

    playbook: Playbook
    host: str
    steps: tuple[PlannedStep, ...]


def plan(playbook: Playbook, host: str, variables: Mapping[str, Any]) -> tuple[PlannedStep, ...]:
    """Return every step in order, each followed by the steps of its `on_failure`. Raises UsageError."""
    values = {**variables, HOST: host}
    planned = []
    for step in playbook.steps:
        planned.append(_plan(playbook, step, values))
        planned += [_plan(playbook, other, values, after=step.name) for other in step.on_failure]
    return tuple(planned)


def _plan(playbook: Playbook, step: Step, values: Mapping[str, Any], after: str = "") -> PlannedStep:
    runs: Runs = "decided at run time"
    if step.when is None or expression_names(step.when) <= values.keys():
        runs = "yes" if wanted(playbook, step, values) else "no"
    known = {name for name, value in step.with_.items() if template_names(value) <= values.keys()}
    arguments = {
        name: argument(playbook, step, name, values) if name in known and runs != "no" else value
        for name, value in step.with_.items()
    }
    return PlannedStep(
        name=step.name,
        do=step.do,
        runs=runs,
        when=step.when or "",
        arguments=arguments,
        open=tuple(name for name in step.with_ if name not in known),
        consent=step.consent,
        retry=step.retry,
        after=after,
    )
