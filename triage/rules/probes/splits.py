"""How the layers of a run may have been dealt out to its pipeline stages.

What is not known of the run (its layers, how its engine deals out the remainder) is left open: every split
that fits what is known is computed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from triage.engines import engine_named
from triage.engines.engine import Pipeline, Scheme
from triage.evidence.model import Unanswered
from triage.patching.source import Unparsable, parse_ast
from triage.rules.arithmetic.stages import Stage, split
from triage.rules.context import Context

MAX_STAGES = 256
LAYERS = (12, 256)  # of models that are worth a pipeline, where their number is not known


@dataclass(frozen=True)
class Splits:
    """`layers` is for people; `unless` says what would make another split, "" when it is known."""

    all: tuple[tuple[Stage, ...], ...]
    layers: str
    counted: bool  # the number of layers is known
    unless: str = ""


def splits_of(context: Context, size: int) -> Splits:
    """The splits of the model over `size` stages. Raises Unanswered where it has fewer layers.

    A partition that the user set counts for the size that it was set for.
    """
    pipeline = engine_named(context.engine).pipeline
    if pipeline is None:
        raise Unanswered("the engine is not known")
    if not 0 < size <= MAX_STAGES:
        raise Unanswered(f"{size} is no number of stages")
    of_run = size == context.layout.pp
    logged = context.incident.facts.get("layer_partition", "") if of_run else ""
    if logged:
        return _of_partition(size, logged)
    variable = pipeline.variable
    is_set = of_run and size == context.deployment.layout.pp
    partition = context.deployment.environment.get(variable, "") if is_set else ""
    unless = f"{variable} was set" if of_run and not context.examined else ""
    try:
        layers = context.config_number("num_hidden_layers")
    except Unanswered:
        if context.examined:
            raise
        first = max(size, LAYERS[0])
        numbers, said = range(first, LAYERS[1] + 1), f"{first} to {LAYERS[1]} layers"
    else:
        numbers, said = range(layers, layers + 1), f"{layers} layers"
    if numbers[0] < size:
        raise Unanswered(f"{said} do not go into {size} stages")
    try:
        found = [
            split(number, size, scheme, partition)
            for number in numbers
            for scheme in _schemes(context, pipeline)
        ]
    except ValueError as error:
        raise Unanswered(f"{variable}: {error}") from None
    return Splits(tuple(dict.fromkeys(found)), said, len(numbers) == 1, unless)


def _of_partition(size: int, partition: str) -> Splits:
    """Return the partition as the run logged it."""
    counts = partition.split(",")
    try:
        layers = sum(int(count) for count in counts if len(count) < 5)
        found = split(layers, size, "remainder-to-last", partition)
    except ValueError as error:
        raise Unanswered(f"the log's partition: {error}") from None
    return Splits((found,), f"{layers} layers", True)


def dealt_out_by(pipeline: Pipeline | None) -> tuple[str, ...]:
    """The module that deals out the layers, of an engine that did so in several ways."""
    return (pipeline.module,) if pipeline and pipeline.module else ()


def _schemes(context: Context, pipeline: Pipeline) -> tuple[Scheme, ...]:
    """How the engine deals out the remainder, read from its own function; every way where it cannot be."""
    try:
        found = [context.tree.read(module) for module in dealt_out_by(pipeline) if context.examined]
        return tuple(_scheme(parse_ast(file.data)) for file in found if file) or pipeline.schemes
    except (Unanswered, Unparsable):
        return pipeline.schemes


def _scheme(module: ast.Module) -> Scheme:
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef) and node.name == "get_pp_indices":
            takes_remainder = any(
                isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) for part in ast.walk(node)
            )
            return "remainder-to-last-ones" if takes_remainder else "remainder-to-last"
    raise Unanswered("it has no get_pp_indices")
