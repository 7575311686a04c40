"""The arguments of each verb of a playbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from triage.common.problems import spelled
from triage.playbook.schema import Verb
from triage.verify.load.loads import FORMS, Form


@dataclass(frozen=True)
class StepArgument:
    """One argument. `kind` is the type of its value in a playbook, `span` the allowed range of a number, both
    ends included.

    An argument with a `form` is written as for the commands, as a number or a text; "" counts as not given.
    """

    kind: Literal["text", "number", "whole number", "true or false"]
    meaning: str
    required: bool = False
    span: tuple[float, float] | None = None
    form: Form | None = None

    def __str__(self) -> str:
        """Return what is expected, for people: `whole number, 1 to 256`."""
        if self.form is not None:
            return str(self.form)
        return self.kind if self.span is None else f"{self.kind}, {self.span[0]:g} to {self.span[1]:g}"

    def accepts(self, value: Any) -> bool:
        if self.form is not None:
            return type(value) in (str, int, float) and (value == "" or self._reads(str(value)))
        if type(value) not in _KINDS[self.kind]:
            return False
        return self.span is None or self.span[0] <= value <= self.span[1]

    def _reads(self, text: str) -> bool:
        assert self.form is not None
        try:
            self.form.read(text)
        except ValueError:
            return False
        return True


_KINDS: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "whole number": (int,),
    "true or false": (bool,),
}
_UNIT = StepArgument("text", 'the systemd unit; "" where a host has but one')
_PATCH = StepArgument("text", "the id of a patch", required=True)
_API_KEY = StepArgument("text", "environment variable here that holds the API key")
_FORMED = {
    "concurrency": "requests at once, beside a load of one at a time",
    "rate": "requests a second, whether others have ended or not, instead of requests at once",
    "arrivals": "how requests at a rate come",
    "repeats": "how often each load is measured at least, and at most until the spread allows a verdict",
    "prompt_tokens": "tokens of a prompt, about",
    "max_tokens": "tokens of an answer",
    "api": "the interface to ask; the first that answers",
}
_LOADS = {
    **{name: StepArgument("text", meaning, form=FORMS[name]) for name, meaning in _FORMED.items()},
    "most_repeats": StepArgument(
        "whole number", "how often at most, until the spread allows a verdict", span=(1, 100)
    ),
    "difference": StepArgument(
        "number", "the difference that repeats are to tell, in percent", span=(0.1, 100)
    ),
    "request_timeout": StepArgument("number", "seconds that one request may take", span=(1, 86_400)),
    "load_timeout": StepArgument("number", "seconds that all loads may take together", span=(1, 86_400)),
    "api_key_env": _API_KEY,
}
_DRAIN = StepArgument(
    "number", "seconds that a restart waits for running requests to end; 0: not at all", span=(0, 86_400)
)

ARGUMENTS: Mapping[Verb, Mapping[str, StepArgument]] = {
    "wait": {
        "unit": _UNIT,
        "timeout": StepArgument("number", "seconds that it may take", span=(1, 86_400)),
        "api_key_env": _API_KEY,
    },
    "diagnose": {"unit": _UNIT},
    "patch": {
        "unit": _UNIT,
        "id": _PATCH,
        "apply": StepArgument("true or false", "make the change (default), or only show it"),
    },
    "verify": {
        "unit": _UNIT,
        "restart": StepArgument("true or false", "restart the service first (default)"),
        "drain": _DRAIN,
        "timeout": StepArgument("number", "seconds that the start may take", span=(1, 86_400)),
        "restart_budget": StepArgument(
            "whole number", "restarts of its own that the service may need", span=(0, 100)
        ),
        "patience": StepArgument(
            "number",
            "seconds of silence and idleness that end the start; 0: never",
            span=(0, 86_400),
        ),
        "requests": StepArgument(
            "whole number", "requests of one load; 0 measures nothing", span=(0, 10_000)
        ),
        **_LOADS,
        "tool": StepArgument("true or false", "measure with the engine's own benchmark as well"),
    },
    "bench": {
        "unit": _UNIT,
        "layouts": StepArgument("text", "the parallel layouts to measure, `tp8,pp8`", required=True),
        "drain": _DRAIN,
        "timeout": StepArgument("number", "seconds that each start may take", span=(1, 86_400)),
        "requests": StepArgument("whole number", "requests of one load", span=(1, 10_000)),
        **_LOADS,
    },
    "rollback": {"unit": _UNIT, "id": _PATCH},
    "capture": {
        "unit": _UNIT,
        "output": StepArgument("text", "the directory of the case", required=True),
        "full": StepArgument("true or false", "read what a bug report needs besides"),
        "replace": StepArgument("true or false", "replace a case that is there"),
    },
    "set": {},  # any names, any values
    "stop": {"reason": StepArgument("text", "why the playbook ends here as failed", required=True)},
}


def wrong_names(verb: Verb, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return (argument, problem) for each unknown and each missing argument."""
    known = ARGUMENTS[verb]
    for name in given:
        if name not in known and verb != "set":
            yield name, f"{verb} has no such argument; it takes {', '.join(known)}"
    for name, argument in known.items():
        if argument.required and name not in given:
            yield name, f"{verb} needs it: {argument.meaning}"


def wrong_value(verb: Verb, name: str, value: Any) -> str:
    """Return what is wrong with the value of a known argument, "" if nothing is."""
    if verb == "set":
        return ""
    argument = ARGUMENTS[verb][name]
    return "" if argument.accepts(value) else f"{argument} expected, not {spelled(value)}"
