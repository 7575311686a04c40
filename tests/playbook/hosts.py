"""A fake host. The runner is handed its actions, so they are the seam of these tests."""

from __future__ import annotations

import copy

from triage.playbook.model import ActionResult
from triage.playbook.runner import run
from triage.playbook.variables import resolve


class Host:
    """Answers each verb with what it was given, in order, the last one again and again; keeps every call.

    An answer is an ActionResult, an error to raise, or the JSON data of a success.
    """

    def __init__(self, **answers):
        self.answers = {
            verb: list(given) if isinstance(given, list) else [given] for verb, given in answers.items()
        }
        self.calls = []
        self.events = []
        self.slept = []

    def action(self, verb):
        def act(host, arguments):
            self.calls.append((verb, dict(arguments)))
            waiting = self.answers.get(verb) or [{}]
            answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            if isinstance(answer, BaseException):
                raise answer
            return (
                answer
                if isinstance(answer, ActionResult)
                else ActionResult(True, copy.deepcopy(answer), verb)
            )

        return act

    def run(self, playbook, *given, consent=lambda asked: True, **more):
        verbs = ("wait", "diagnose", "patch", "verify", "bench", "rollback", "capture")
        return run(
            playbook,
            "gpu01",
            resolve(playbook, given),
            {verb: self.action(verb) for verb in verbs},
            consent=consent,
            on_event=self.events.append,
            sleep=self.slept.append,
            **more,
        )

    @property
    def verbs(self):
        return [verb for verb, _ in self.calls]


def failed(summary="it died", **data):
    return ActionResult(False, data, summary)


def statuses(result):
    return {outcome.step: outcome.status for outcome in result.outcomes}
