"""Pipeline-stage arithmetic with the numbers of the run."""

from __future__ import annotations

import re

from triage.evidence.model import Unanswered
from triage.rules.arithmetic.stages import Lookup, Stage, look_up
from triage.rules.checks import StageOwnsLayer, Stages
from triage.rules.context import Context
from triage.rules.diagnosis import CheckResult, EvidenceTable
from triage.rules.probes.splits import Splits, splits_of

MAX_LAYER_DIGITS = 4


def stages(probe: Stages, context: Context) -> CheckResult:
    """Compute the stages. If the number of layers is not known, the result can only speak against."""
    size, observed = context.layout.pp, _observed(context)
    splits = splits_of(context, size)
    raising = [_raising(each, probe.layer) for each in splits.all]
    detail = f"{probe.says}: {splits.layers} over {size} stages make {_named(raising)} raise"
    if not observed:
        raise Unanswered(f"{detail}, but the log does not tell which stage raised")
    detail += f"; the log has it from {_sorted(observed)}"
    holds = [observed <= each for each in raising]
    if all(holds) and not splits.counted:
        raise Unanswered(f"{detail}, which agrees, but the number of layers is not known")
    return _judged(detail, holds, splits, _table(splits.all[0], observed, probe.layer))


def stage_owns_layer(probe: StageOwnsLayer, context: Context) -> CheckResult:
    layer = _layer(probe, context)
    observed = _observed(context)
    if not observed:
        raise Unanswered("the log does not tell which stage raised")
    splits = splits_of(context, context.layout.pp)
    owners = [{_name(stage) for stage in each if stage.start <= layer < stage.end} for each in splits.all]
    detail = (
        f"{probe.says}: of {splits.layers} over {context.layout.pp} stages, layer {layer} is that of "
        f"{_named(owners)}; the log has it from {_sorted(observed)}"
    )
    return _judged(detail, [bool(each & observed) == probe.owned for each in owners], splits)


def look_up_all(context: Context, size: int, layer: int) -> tuple[Lookup, ...]:
    """What every stage finds when it asks for `layer`, at a pipeline of `size`. Raises Unanswered."""
    splits = splits_of(context, size)
    if len(splits.all) > 1:
        raise Unanswered(f"how {size} stages share the layers is not known")
    return tuple(look_up(stage, layer) for stage in splits.all[0])


def _judged(
    detail: str, holds: list[bool], splits: Splits, table: EvidenceTable | None = None
) -> CheckResult:
    """What holds in every split is shown; what holds in none is refuted, unless the user set another."""
    shown = table if len(splits.all) == 1 else None
    if all(holds):
        return CheckResult("probe", "pass", detail, table=shown)
    if any(holds):
        raise Unanswered(f"{detail}, which fits some of these splits only")
    if splits.unless:
        return CheckResult(
            "probe", "missing", f"{detail}, which cannot be unless {splits.unless}", against=True
        )
    return CheckResult("probe", "fail", detail, table=shown)


def _layer(probe: StageOwnsLayer, context: Context) -> int:
    if probe.layer is not None:
        return probe.layer
    found = re.search(probe.named, context.fault.message)
    if found is None or not found[1].isdecimal() or len(found[1]) > MAX_LAYER_DIGITS:
        raise Unanswered("the message names no layer")
    return int(found[1])


def _raising(split: tuple[Stage, ...], layer: int) -> set[str]:
    return {_name(stage) for stage in split if look_up(stage, layer).outcome == "raises"}


def _observed(context: Context) -> set[str]:
    """The stages that raised. Raises Unanswered where the layout has no such stage, so is not the run's."""
    observed = {rank for rank in context.fault.ranks if re.fullmatch(r"PP\d{1,4}", rank)}
    size = context.layout.pp
    if observed and (size == 1 or any(int(rank[2:]) >= size for rank in observed)):
        raise Unanswered(f"the log has it from {_sorted(observed)}, but does not tell of how many stages")
    return observed


def _table(split: tuple[Stage, ...], observed: set[str], layer: int) -> EvidenceTable:
    return EvidenceTable(
        ("stage", "layers", f"asks for layer {layer}", "in the log"),
        tuple(_row(look_up(stage, layer), observed) for stage in split),
    )


def _row(item: Lookup, observed: set[str]) -> tuple[str, str, str, str]:
    name = _name(item.stage)
    found = {
        "own": "its own",
        "wrong": f"silently reads layer {item.layer} (index {item.index})",
        "raises": f"IndexError (index {item.index} of {item.stage.layers})",
    }[item.outcome]
    return (name, f"{item.stage.start}-{item.stage.end - 1}", found, "raised" if name in observed else "")


def _name(stage: Stage) -> str:
    return f"PP{stage.rank}"


def _named(each: list[set[str]]) -> str:
    """The ranks that are in every set, and those that are in some."""
    always, ever = set.intersection(*each), set.union(*each)
    maybe = f" (or {_sorted(ever - always)})" if ever - always else ""
    return _sorted(always) + maybe


def _sorted(ranks: set[str]) -> str:
    return ", ".join(sorted(ranks, key=lambda rank: int(rank[2:]))) or "no stage"
