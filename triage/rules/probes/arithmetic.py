"""Pipeline-stage arithmetic with the numbers of this deployment."""

from __future__ import annotations

import ast
import re

from triage.evidence.model import Unanswered
from triage.rules.context import Context
from triage.rules.diagnosis import Finding, Table
from triage.rules.schema import Stages
from triage.rules.stages import Lookup, Scheme, Stage, look_up, split

PARTITION_VARIABLES = {"sglang": "SGLANG_PP_LAYER_PARTITION", "vllm": "VLLM_PP_LAYER_PARTITION"}


def stages(probe: Stages, context: Context) -> Finding:
    size = context.layout.pp
    lookups = look_up_all(context, size, probe.layer)
    raising = {f"PP{item.stage.rank}" for item in lookups if item.outcome == "raises"}
    observed = {rank for rank in context.fault.ranks if re.fullmatch(r"PP\d+", rank)}
    table = Table(
        ("stage", "layers", f"asks for layer {probe.layer}", "in the log"),
        tuple(_row(item, observed, probe.layer) for item in lookups),
    )
    layers = lookups[-1].stage.end
    detail = f"{probe.says}: {layers} layers over {size} stages make {_named(raising)} raise"
    if not observed:
        raise Unanswered(f"{detail}, but the log does not tell which stage raised")
    holds = observed <= raising
    detail += f"; the log has it from {_named(observed)}"
    return Finding("probe", "pass" if holds else "fail", detail, table=table)


def look_up_all(context: Context, size: int, layer: int) -> tuple[Lookup, ...]:
    """What every stage finds when it asks for `layer`, at a pipeline of `size`. Raises Unanswered."""
    return tuple(look_up(stage, layer) for stage in stages_of(context, size))


def stages_of(context: Context, size: int) -> tuple[Stage, ...]:
    """The stages of the model; a partition that the user set counts for the size that it was set for."""
    layers = context.config_number("num_hidden_layers")
    if not 0 < size <= layers:
        raise Unanswered(f"{layers} layers do not go into {size} stages")
    variable = PARTITION_VARIABLES.get(context.deployment.engine, "")
    is_set = size == context.layout.pp == context.deployment.layout.pp
    partition = context.deployment.environment.get(variable, "") if is_set else ""
    try:
        return split(layers, size, _scheme(context), partition)
    except ValueError as error:
        raise Unanswered(f"{variable}: {error}") from None


def _scheme(context: Context) -> Scheme:
    """How the installed engine deals out the remainder, read from its own function."""
    engine = context.deployment.engine
    if engine == "vllm":
        return "remainder-before-last"
    found = context.tree.read(f"{engine}.srt.distributed.utils")
    if found is None:
        raise Unanswered("the engine's get_pp_indices was not found")
    try:
        module = ast.parse(found.data)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unanswered(f"{found.path} does not parse: {error}") from None
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == "get_pp_indices":
            takes_remainder = any(
                isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in ast.walk(node)
            )
            return "remainder-to-last-ones" if takes_remainder else "remainder-to-last"
    raise Unanswered(f"{found.path} has no get_pp_indices")


def _row(item: Lookup, observed: set[str], layer: int) -> tuple[str, str, str, str]:
    name = f"PP{item.stage.rank}"
    found = {
        "own": "its own",
        "wrong": f"silently reads layer {item.layer} (index {item.index})",
        "raises": f"IndexError (index {item.index} of {item.stage.layers})",
    }[item.outcome]
    return (name, f"{item.stage.start}-{item.stage.end - 1}", found, "raised" if name in observed else "")


def _named(ranks: set[str]) -> str:
    return ", ".join(sorted(ranks, key=lambda rank: int(rank[2:]))) or "no stage"
