"""Into how many equal parts a model can be cut, and how many GPUs there are for them.

Each tensor-parallel rank takes an equal part of the attention heads (key-value heads that are fewer are
copied), of the intermediate sizes, in whole quantization blocks where there are such, and of the vocabulary,
padded to a multiple of 64. What is not known of a model is not asked for; of an unknown vocabulary the 64 is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from triage.common.wording import counted
from triage.evidence.catalogue import GpuInventory
from triage.evidence.model import Unanswered
from triage.rules.arithmetic import numbers
from triage.rules.context import Context

MAX_RANKS = 1024  # the sizes may come from a log
PADDING = 64  # of the vocabulary: DEFAULT_VOCAB_PADDING_SIZE of both engines
MAX_BLOCK = 4096


@dataclass(frozen=True)
class Cuts:
    """The numbers that tensor parallelism cuts, each with its name."""

    numbers: tuple[tuple[str, int], ...]
    key_value_heads: int | None
    vocabulary: int

    def sizes(self, most: int) -> tuple[int, ...]:
        """Those up to `most` that cut each number evenly."""
        wanted = (*(number for _, number in self.numbers), self.vocabulary)
        return numbers.sizes_that_divide(wanted, self.key_value_heads, most)

    def __str__(self) -> str:
        return ", ".join(name for name, _ in self.numbers) or "the vocabulary"


def cuts_of(context: Context, *more: tuple[str, int]) -> Cuts:
    """What is known of the run's model, and `more` that must divide."""
    vocabulary = -(-(number_of(context, "vocab_size") or 1) // PADDING) * PADDING
    return Cuts((*more, *_cut(context)), number_of(context, "num_key_value_heads"), vocabulary)


def number_of(context: Context, *keys: str) -> int | None:
    """The first of the keys that the log or config.json has."""
    for key in keys:
        try:
            return context.config_number(key)
        except Unanswered:
            continue
    return None


def gpus_seen(context: Context) -> tuple[int, str]:
    """How many GPUs the service may see on its host, and what says so. Raises Unanswered."""
    visible = context.deployment.environment.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([name for name in visible.split(",") if name.strip() not in ("", "-1")])
        return count, f"{count} in CUDA_VISIBLE_DEVICES={visible}"
    gpus = context.evidence.ask(GpuInventory()).require().gpus
    if not gpus:
        raise Unanswered("the driver names no GPU")
    return len(gpus), counted(len(gpus), "GPU")


def gpus_for(context: Context) -> int:
    """Those of the run, or all of its host where it is one host with more. Raises Unanswered."""
    layout, nodes = context.layout, context.argument(("nnodes",))
    asked, there = layout.tp * layout.pp, 0
    if layout.dp == 1 and (nodes is None or nodes.value in ("", "1")):
        try:
            there, _ = gpus_seen(context)
        except Unanswered:
            there = 0
    if asked > MAX_RANKS or not 1 < max(asked, there) <= MAX_RANKS:
        raise Unanswered("the log does not tell how many GPUs there are")
    return max(asked, there)


def _cut(context: Context) -> Iterator[tuple[str, int]]:
    heads = number_of(context, "num_attention_heads")
    if heads:
        yield f"num_attention_heads {heads}", heads
    block = _block(context)
    for key in ("intermediate_size", "moe_intermediate_size"):
        size = number_of(context, key)
        if not size or (context.layout.ep > 1 and key.startswith("moe")):
            continue
        if block > 1 and size % block == 0:
            yield f"{key} {size} in blocks of {block}", size // block
        else:
            yield f"{key} {size}", size


def _block(context: Context) -> int:
    """The longer side of the quantization's blocks; 1 where there are none, or nothing is known."""
    try:
        quantization = context.checkpoint.config().get("quantization_config")
    except Unanswered:
        return 1
    shape = quantization.get("weight_block_size") if isinstance(quantization, dict) else None
    sides = shape if isinstance(shape, list) else []
    return max((side for side in sides if isinstance(side, int) and 0 < side <= MAX_BLOCK), default=1)


def named_in(pattern: str, message: str) -> int | None:
    """The number that group 1 of a pattern finds."""
    found = re.search(pattern, message) if pattern else None
    return int(found[1]) if found and re.fullmatch(r"[0-9]{1,9}", found[1]) else None
