"""What to do about a matched rule, computed for the deployment where it can be."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from triage.evidence.model import Layout, Unanswered
from triage.patching.model import PlanState
from triage.rules.arithmetic.divisors import MAX_RANKS, cuts_of
from triage.rules.context import Context
from triage.rules.diagnosis import Remedy
from triage.rules.probes.arithmetic import look_up_all
from triage.rules.remedies.commands import runnable
from triage.rules.remedies.computed import Computed
from triage.rules.remedies.computing import compute
from triage.rules.remedies.placeholders import fill, placeholders
from triage.rules.schema import (
    ActionRemedy,
    LayoutRemedy,
    PatchRemedy,
    RemedySpec,
    SettingRemedy,
    UpgradeRemedy,
)


def remedies(specs: tuple[RemedySpec, ...], context: Context) -> tuple[Remedy, ...]:
    found: list[Remedy] = []
    for spec in specs:
        if isinstance(spec, PatchRemedy):
            if not spec.if_in_traceback or _in_traceback(spec, context):
                found.append(_patch(spec, context))
        elif isinstance(spec, UpgradeRemedy):
            found.append(_upgrade(spec, context))
        elif isinstance(spec, SettingRemedy):
            found.extend(_setting(spec, context))
        elif isinstance(spec, ActionRemedy):
            command = runnable(spec.command, context)
            found.append(Remedy("action", spec.id, spec.summary, command, spec.cost, spec.proof))
        else:
            found.extend(_layouts(spec, context))
    return tuple(found)


def _setting(spec: SettingRemedy, context: Context) -> Iterator[Remedy]:
    """Return a setting as this engine spells it, with its numbers; nothing if it has no such one."""
    text = spec.set if isinstance(spec.set, str) else spec.set.of(context.engine)
    if not text:
        return
    try:
        computed = compute(spec, context)
    except Unanswered:
        computed = Computed({"N": spec.otherwise} if spec.otherwise else {}, "")
    command = fill(text, {**placeholders(context), **computed.values})
    proof = "; ".join(filter(None, (computed.proof, spec.proof)))
    yield Remedy("setting", spec.id, spec.summary, command, spec.cost, proof, computed.helps)


def _in_traceback(spec: PatchRemedy, context: Context) -> bool:
    patch = context.patches.get(spec.patch)
    modules = [module for edit in patch.edits for module in edit.modules] if patch else []
    files = tuple(f"/{module.replace('.', '/')}.py" for module in modules)
    faults = (context.fault, *context.fault.chain)
    return any(frame.file.endswith(files) for fault in faults for frame in fault.frames)


def _patch(spec: PatchRemedy, context: Context) -> Remedy:
    command = context.command("patch", "--id", spec.patch, "--apply")
    plan = context.plan(spec.patch)
    if plan is None or plan.state in (PlanState.UNREADABLE, PlanState.NOT_INSTALLED):
        return Remedy("patch", spec.patch, spec.summary, command, spec.cost, spec.proof)
    if plan.state in (PlanState.APPLIED, PlanState.FIXED_UPSTREAM):
        restart = context.command("verify")
        return Remedy(
            "action", "restart", "the source already has the fix; restart to run it", restart, helps=True
        )
    if plan.state is not PlanState.APPLICABLE:
        proof = f"{plan.state.value}: {plan.reason}"
        return Remedy("patch", spec.patch, spec.summary, "", spec.cost, proof, helps=False)
    proof = f"{spec.proof}; applicable to the source that was read: {plan.reason}"
    return Remedy("patch", spec.patch, spec.summary, command, spec.cost, proof, helps=True)


def _upgrade(spec: UpgradeRemedy, context: Context) -> Remedy:
    wanted = f"{spec.distribution}{spec.version}"
    command = shlex.join((context.deployment.python or "python", "-m", "pip", "install", "--upgrade", wanted))
    return Remedy("upgrade", wanted, spec.summary, command, spec.cost, spec.proof)


def _layouts(spec: LayoutRemedy, context: Context) -> tuple[Remedy, ...]:
    """Other splits of the same GPUs into tp x pp that the model's heads allow."""
    now = context.layout
    gpus = now.tp * now.pp
    if gpus > MAX_RANKS:
        return ()
    found, cuts = [], cuts_of(context)
    for pp in (size for size in range(1, gpus + 1) if gpus % size == 0 and size != now.pp):
        layout = Layout(tp=gpus // pp, pp=pp, dp=now.dp)
        try:
            if context.config_number("num_attention_heads") and layout.tp not in cuts.sizes(layout.tp):
                continue
            lookups = look_up_all(context, pp, spec.layer)
        except Unanswered:
            continue
        raising = [f"PP{item.stage.rank}" for item in lookups if item.outcome == "raises"]
        wrong = [f"PP{item.stage.rank}" for item in lookups if item.outcome == "wrong"]
        if raising:
            result = f"does not help: {', '.join(raising)} would raise the same error"
        elif wrong:
            result = f"no stage raises; {', '.join(wrong)} silently reads another layer's buffer"
        else:
            result = "no stage asks for a layer of another"
        found.append(
            Remedy(
                "setting",
                f"layout-{str(layout).replace(' ', '-')}",
                f"TP{layout.tp} x PP{layout.pp}: {result}",
                f"--tp-size {layout.tp} --pp-size {layout.pp}",
                spec.cost,
                "computed from the layers and heads of config.json; not run",
                not raising,
            )
        )
    return tuple(found)
