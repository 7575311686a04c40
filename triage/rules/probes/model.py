"""The model's own numbers, against the layout of the run."""

from __future__ import annotations

from triage.rules.checks import Axis, ConfigNumber
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult
from triage.rules.probes.judge import of_run


def config_number(probe: ConfigNumber, context: Context) -> CheckResult:
    number = context.config_number(probe.key)
    word, wanted = next(
        (word, other)
        for word, other in (
            ("below", probe.below),
            ("at least", probe.at_least),
            ("a multiple of", probe.multiple_of),
            ("no multiple of", probe.not_multiple_of),
        )
        if other is not None
    )
    other, name = _value(wanted, context)
    holds = {
        "below": number < other,
        "at least": number >= other,
        "a multiple of": number % other == 0,
        "no multiple of": number % other != 0,
    }[word]
    asked = f"{word} {name}{other}"
    return of_run(holds, f"{probe.says}: {probe.key} is {number}, {'' if holds else 'not '}{asked}")


def _value(wanted: int | Axis, context: Context) -> tuple[int, str]:
    if isinstance(wanted, int):
        return max(1, wanted), ""
    size: int = getattr(context.layout, wanted)
    return size, f"{wanted} = "
