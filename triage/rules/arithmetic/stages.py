"""Which pipeline stage owns which layers, and what a global layer number finds in a stage-local list.

Sources: `get_pp_indices` in sglang/srt/distributed/utils.py (up to 0.5.5 the last stage takes the whole
remainder, from 0.5.6 the last `remainder` stages take one layer more each) and in
vllm/distributed/utils.py (the remainder goes one each to the stages before the last).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from triage.engines.engine import Scheme


@dataclass(frozen=True)
class Stage:
    """Layers [start, end) of one pipeline rank."""

    rank: int
    start: int
    end: int

    @property
    def layers(self) -> int:
        return self.end - self.start


def split(layers: int, size: int, scheme: Scheme, partition: str = "") -> tuple[Stage, ...]:
    """The stages of a model with `layers` layers; `partition` is `7,7,8,...` where the user set one.

    Raises ValueError for a partition that does not fit.
    """
    if partition:
        counts = [int(part) for part in partition.split(",")]
        if len(counts) != size or sum(counts) != layers or min(counts) < 0:
            raise ValueError(f"partition {partition} does not give {layers} layers to {size} stages")
    else:
        base, remainder = divmod(layers, size)
        counts = [base] * size
        if scheme == "remainder-to-last":
            counts[-1] += remainder
        elif scheme == "remainder-to-last-ones":
            for rank in range(size - remainder, size):
                counts[rank] += 1
        else:
            for offset in range(2, remainder + 2):
                counts[-offset] += 1
    starts = [sum(counts[:rank]) for rank in range(size)]
    return tuple(Stage(rank, starts[rank], starts[rank] + counts[rank]) for rank in range(size))


@dataclass(frozen=True)
class Lookup:
    """What `list[layer - start]` finds on a stage: its own layer, another by a negative index, or nothing."""

    stage: Stage
    index: int
    outcome: Literal["own", "wrong", "raises"]
    layer: int | None  # the global number of the layer that is read


def look_up(stage: Stage, layer: int = 0) -> Lookup:
    """Python's own rule for a list of `stage.layers` entries: a negative index counts from the end."""
    index = layer - stage.start
    if index >= stage.layers or index < -stage.layers:
        return Lookup(stage, index, "raises", None)
    if index >= 0:
        return Lookup(stage, index, "own", layer)
    return Lookup(stage, index, "wrong", stage.end + index)
