"""Runs a playbook: order, conditions, consent, retries, and what follows a failure.

The runner does not know hosts, patches or verification: `actions` holds what each verb does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triage.common.errors import ExitCode, RefusedError, TriageError, UsageError
from triage.common.problems import spelled
from triage.playbook.check import HOST
from triage.playbook.model import (
    NOTHING,
    Action,
    ActionResult,
    ConsentAsked,
    Done,
    Event,
    Failed,
    Playbook,
    Result,
    Retried,
    Skipped,
    StepOutcome,
    StepRefused,
    StepStarted,
)
from triage.playbook.schema import Step
from triage.playbook.steps import argument, wanted


def run(
    playbook: Playbook,
    host: str,
    variables: Mapping[str, Any],
    actions: Mapping[str, Action],
    *,
    consent: Callable[[ConsentAsked], bool],
    on_event: Callable[[Event], None] = lambda event: None,
    sleep: Callable[[float], None] = time.sleep,
    earlier: Sequence[StepOutcome] = (),
    keep: Callable[[Sequence[StepOutcome]], None] = lambda outcomes: None,
) -> Result:
    """Run every step on the host; `variables` are those of `variables.resolve`.

    A step fails if its action returns a result that is not ok, if the action raises TriageError, or if one of
    the step's expressions has no value. Then all of its `on_failure` steps run, whatever the outcome of each,
    and the run has failed with the exit code of the step. A step for which consent is refused does not run,
    and ends the run.

    `keep` receives the outcomes so far after each step. `earlier` holds them for a run that was interrupted:
    those steps do not run again, and later ones see what they registered.
    """
    values = {**variables, HOST: host}
    play = _PlaybookRun(playbook, host, {**actions, **_BUILT_IN}, consent, on_event, sleep, values, keep)
    keep(earlier)  # if that cannot be stored, nothing begins
    last = play.steps({outcome.step: outcome for outcome in earlier if not outcome.ends})
    wrong = [f"{item.step}: {item.summary}" for item in play.outcomes if item.ends]
    return Result(
        playbook=playbook.name,
        file=playbook.file,
        host=host,
        variables=variables,
        status="done" if last.status == "skipped" else last.status,
        reason="; ".join(wrong),
        exit_code=last.exit_code,
        outcomes=tuple(play.outcomes),
    )


@dataclass
class _PlaybookRun:
    playbook: Playbook
    host: str
    actions: Mapping[str, Action]
    consent: Callable[[ConsentAsked], bool]
    emit: Callable[[Event], None]
    sleep: Callable[[float], None]
    values: dict[str, Any]
    keep: Callable[[Sequence[StepOutcome]], None]
    outcomes: list[StepOutcome] = field(default_factory=list)

    def steps(self, earlier: Mapping[str, StepOutcome]) -> StepOutcome:
        """Run all steps. Returns the outcome of the step that ended the run, or of the last one."""
        for step in self.playbook.steps:
            outcome = self.taken_over(step, earlier.get(step.name)) or self.step(step)
            if outcome.status == "failed":
                for other in step.on_failure:
                    self.step(other, after=step.name)
            if outcome.ends:
                break
        return outcome

    def step(self, step: Step, after: str = "") -> StepOutcome:
        outcome = replace(self.outcome(step), after=after)
        self.outcomes.append(outcome)
        self.keep(self.outcomes)
        return outcome

    def taken_over(self, step: Step, outcome: StepOutcome | None) -> StepOutcome | None:
        """Return the outcome of a step that ran before the interruption."""
        if outcome is None:
            return None
        if outcome.status == "done" and step.register_ is not None:
            self.values[step.register_] = dict(outcome.data)
        self.emit(Skipped(step.name, f"{outcome.status} before the interruption"))
        self.outcomes.append(outcome)
        return outcome

    def outcome(self, step: Step) -> StepOutcome:
        try:
            if not wanted(self.playbook, step, self.values):
                return self.skipped(step)
            arguments = {name: argument(self.playbook, step, name, self.values) for name in step.with_}
        except UsageError as error:
            return self.failed(step, error)
        self.emit(StepStarted(step.name, step.do, arguments))
        if step.consent and not self.agreed(step, arguments):
            self.emit(StepRefused(step.name))
            return StepOutcome(
                step.name, step.do, "refused", "consent was refused", ExitCode.REFUSED, arguments=arguments
            )
        return self.acted(step, arguments)

    def agreed(self, step: Step, arguments: Mapping[str, Any]) -> bool:
        question = ConsentAsked(step.name, step.do, self.host, arguments)
        self.emit(question)
        return self.consent(question)

    def acted(self, step: Step, arguments: Mapping[str, Any]) -> StepOutcome:
        """Try until the action succeeds, or no further attempt is left."""
        attempts = 1
        answer = self.attempt(step, arguments)
        while step.retry and attempts <= step.retry.count and _may_pass_later(answer):
            retries = step.retry.count + 1
            self.emit(Retried(step.name, attempts, retries, step.retry.seconds, _summary(answer)))
            self.sleep(step.retry.seconds)
            attempts += 1
            answer = self.attempt(step, arguments)
        if isinstance(answer, TriageError):
            return self.failed(step, answer, arguments, attempts)
        data = dict(answer.data)
        if step.register_ is not None:
            self.values[step.register_] = data
        if answer.ok:
            self.emit(Done(step.name, answer.summary, answer.detail))
        else:
            self.emit(Failed(step.name, answer.summary, answer.detail))
        return StepOutcome(
            step.name,
            step.do,
            "done" if answer.ok else "failed",
            answer.summary,
            ExitCode.OK if answer.ok else ExitCode.FOUND,
            arguments=arguments,
            data=data,
            attempts=attempts,
        )

    def attempt(self, step: Step, arguments: Mapping[str, Any]) -> ActionResult | TriageError:
        try:
            return self.actions[step.do](self.host, arguments)
        except TriageError as error:
            return error

    def skipped(self, step: Step) -> StepOutcome:
        reason = f"does not hold: {' '.join((step.when or '').split())}"
        self.emit(Skipped(step.name, reason))
        return StepOutcome(step.name, step.do, "skipped", reason)

    def failed(
        self,
        step: Step,
        error: TriageError,
        arguments: Mapping[str, Any] = NOTHING,
        attempts: int = 0,
    ) -> StepOutcome:
        self.emit(Failed(step.name, str(error), next=str(error.next)))
        return StepOutcome(
            step.name,
            step.do,
            "failed",
            str(error),
            error.exit_code,
            next=str(error.next),
            arguments=arguments,
            attempts=attempts,
        )


def _set(host: str, arguments: Mapping[str, Any]) -> ActionResult:
    return ActionResult(
        True, arguments, ", ".join(f"{name} = {spelled(arguments[name])}" for name in arguments)
    )


def _stop(host: str, arguments: Mapping[str, Any]) -> ActionResult:
    return ActionResult(False, {}, arguments["reason"])


_BUILT_IN: Mapping[str, Action] = {"set": _set, "stop": _stop}


def _may_pass_later(answer: ActionResult | TriageError) -> bool:
    """Return whether another attempt could succeed. An invalid or unsafe request stays so."""
    if isinstance(answer, TriageError):
        return not isinstance(answer, (UsageError, RefusedError))
    return not answer.ok


def _summary(answer: ActionResult | TriageError) -> str:
    return str(answer) if isinstance(answer, TriageError) else answer.summary
