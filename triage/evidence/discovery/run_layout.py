"""The deployment as the run that failed logged it: its unit may have been edited since."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

from triage.engines import engine_named
from triage.evidence.model import Deployment, Layout

MAX_SIZE_DIGITS = 5
_ALWAYS_LOGGED = ("tp", "pp")  # an engine may set the others by itself


def as_it_ran(deployment: Deployment, facts: Mapping[str, str]) -> Deployment:
    """Return a deployment with the run's layout and model; what is another now is told as a disagreement.

    `facts` are what the log of the run says. What it does not say stays as the deployment has it now.
    """
    ran = replace(
        deployment,
        layout=_layout(deployment, facts),
        model=facts.get("model_path") or deployment.model,
    )
    changed = ", ".join(_changed(ran, deployment))
    if not changed:
        return ran
    what = "unit was changed" if deployment.unit else "deployment was changed"
    said = f"the {what} after this run: {changed}"
    return replace(ran, disagreements=(*deployment.disagreements, said))


def _layout(deployment: Deployment, facts: Mapping[str, str]) -> Layout:
    now = asdict(deployment.layout)
    return Layout(**{name: _size(facts.get(f"{name}_size", "")) or size for name, size in now.items()})


def _changed(ran: Deployment, now: Deployment) -> Iterator[str]:
    if not now.arguments:  # it is not known what would be started now
        return
    for name, flag in engine_named(now.engine).command.sizes.items():
        then, today = getattr(ran.layout, name), getattr(now.layout, name)
        if then != today and (name in _ALWAYS_LOGGED or flag in now.arguments):
            yield f"--{flag} {then} then, {today} now"
    if ran.model != now.model and ran.model.startswith("/") and now.model.startswith("/"):
        yield f"the model {ran.model} then, {now.model} now"


def _size(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_SIZE_DIGITS else 0
