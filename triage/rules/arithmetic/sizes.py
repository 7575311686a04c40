"""Sizes of a layout that work with the model and the GPUs: tensor, pipeline, expert and data parallelism."""

from __future__ import annotations

import re
from collections.abc import Iterable

from triage.common.wording import counted
from triage.engines import engine_named
from triage.evidence.catalogue import GpuInventory
from triage.evidence.model import Unanswered
from triage.rules.arithmetic import numbers
from triage.rules.arithmetic.divisors import MAX_RANKS, Cuts, cuts_of, gpus_for, named_in, number_of
from triage.rules.context import Context
from triage.rules.remedies.computed import Computed
from triage.rules.schema import SettingRemedy

_PART_AND_BLOCK = re.compile(
    r"= ?(\d{1,8})\b.{0,120}? is not divisible by\s"
    r".{0,40}?\b(?:block_[nk]|min_thread_[nk]|group_size) = ?(\d{1,6})\b"
)


def tensor_size(spec: SettingRemedy, context: Context) -> Computed:
    """The largest for the GPUs there are; with stages for the others (M), that leaves none over."""
    named = named_in(spec.divides, context.fault.message)
    more = {"what the message names": named, **{key: number_of(context, key) for key in spec.keys}}
    cuts = cuts_of(context, *((f"{name} {number}", number) for name, number in more.items() if number))
    given = named_in(spec.gpus, context.fault.message)
    if not cuts.numbers and not given:
        raise Unanswered("neither the message nor config.json gives the numbers")
    return _largest(spec, context, cuts, given)


def block_size(spec: SettingRemedy, context: Context) -> Computed:
    """Compute the sizes for which the parts of a layer are whole quantization blocks."""
    whole, block = _cut_in_blocks(context)
    return _largest(spec, context, cuts_of(context, (f"{whole} in blocks of {block}", whole // block)))


def larger_size(spec: SettingRemedy, context: Context) -> Computed:
    """N, the next tensor-parallel size above that of the run, and M, twice its stages."""
    layout, cuts = context.layout, cuts_of(context)
    if layout.tp * layout.pp > MAX_RANKS:
        raise Unanswered("the log does not tell how many GPUs there are")
    size = next((size for size in cuts.sizes(4 * layout.tp) if size > layout.tp), None)
    if size is None or not cuts.numbers:
        raise Unanswered("it is not known by which sizes the model divides")
    return Computed({"N": str(size), "M": str(2 * layout.pp)}, f"computed: {size} divides {cuts}")


def expert_block_size(spec: SettingRemedy, context: Context) -> Computed:
    """Experts that are cut in so many parts less are shared out to so many groups more."""
    tp = context.layout.tp
    whole, block = _cut_in_blocks(context)
    experts = number_of(context, *EXPERTS) or 0
    fit = [size for size in _divisors(tp) if whole // block % size == 0 and experts % (tp // size) == 0]
    if not fit or fit[-1] == tp:
        raise Unanswered(f"no expert-parallel size gives whole blocks of {block}")
    each = whole // fit[-1]
    proof = f"computed: {whole // tp} on each of {tp} ranks are {whole}; {each} are {each // block} x {block}"
    return Computed({"N": str(tp // fit[-1])}, proof, True)


def expert_size(spec: SettingRemedy, context: Context) -> Computed:
    """The largest expert-parallel size that divides the experts, which an engine may share over tp x dp."""
    layout = context.layout
    total = _experts(context) + _redundant(context)
    _require_ranks(layout.tp)
    if engine_named(context.engine).command.expert_switch:
        fit = [size for size in cuts_of(context).sizes(layout.tp) if total % (size * layout.dp) == 0]
    else:
        fit = [size for size in _divisors(layout.tp) if total % size == 0]
    if not fit:
        raise Unanswered(f"no size divides {total} experts")
    proof = f"computed: of the sizes for {layout.tp} ranks, {_listed(fit)} divide {total} experts"
    return Computed({"N": str(fit[-1])}, proof, True)


def redundant_experts(spec: SettingRemedy, context: Context) -> Computed:
    """The fewest, but not fewer than before, that make the experts a multiple of the ranks."""
    layout, experts, had = context.layout, _experts(context), _redundant(context)
    ranks = layout.ep if layout.ep > 1 else layout.tp
    _require_ranks(ranks)
    more = had + -(experts + had) % ranks
    return Computed({"N": str(more)}, f"computed: {experts} experts and {more} more over {ranks} ranks", True)


def data_parallel_size(spec: SettingRemedy, context: Context) -> Computed:
    """The largest that divides the tensor-parallel size and is no more than was asked for."""
    tp, asked = context.layout.tp, context.layout.dp
    _require_ranks(tp)
    best = max((size for size in _divisors(tp)[1:] if size <= asked), default=tp)
    proof = f"computed: {_listed(_divisors(tp)[1:])} divide a tensor-parallel size of {tp}"
    return Computed({"N": str(best)}, proof, True)


def one_stage(spec: SettingRemedy, context: Context) -> Computed:
    gpus = context.layout.tp * context.layout.pp
    _require_ranks(gpus)
    heads = context.config_number("num_attention_heads")
    proof = f"computed: {heads} attention heads over {gpus} GPUs"
    return Computed({}, proof, gpus in cuts_of(context).sizes(gpus))


def gpus_for_weights(spec: SettingRemedy, context: Context) -> Computed:
    """M, how many GPUs hold the weights; N, the tensor-parallel size from there that divides the model."""
    weights, memory = context.checkpoint.weights(), card_memory(context)
    ranks = context.layout.tp * context.layout.pp
    needed = numbers.gpus_for(weights, memory)
    proof = (
        f"computed: {gib(weights)} of weights over {counted(ranks, 'GPU')} are {gib(weights // ranks)} each; "
        f"each has {gib(memory)}"
    )
    if needed <= ranks:
        raise Unanswered(f"{proof}: the weights would fit")
    sizes = cuts_of(context).sizes(4 * min(needed, MAX_RANKS))
    size = next((size for size in sizes if size >= needed), needed)
    return Computed({"N": str(size), "M": str(needed)}, proof, True)


def card_memory(context: Context) -> int:
    """Bytes of the smallest card, as the message or the driver tells."""
    failed = numbers.allocation(context.fault.message)
    if failed:
        return failed.total
    found = [gpu.memory_total for gpu in context.evidence.ask(GpuInventory()).require().gpus]
    sizes = [size for size in found if size]
    if not sizes:
        raise Unanswered("the driver names no GPU")
    return min(sizes) << 20


def gib(size: int) -> str:
    return f"{size / numbers.GIB:.2f} GiB"


EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")


def _largest(spec: SettingRemedy, context: Context, cuts: Cuts, given: int | None = None) -> Computed:
    """Return the largest size for the GPUs of the message, or else another than the run's."""
    current = 0 if given else context.layout.tp
    gpus = min(given, MAX_RANKS) if given else gpus_for(context)
    staged = re.search(r"\bM\b", str(spec.set)) is not None
    room = gpus if staged else gpus // context.layout.pp
    fit = [size for size in cuts.sizes(room) if size != current and not (staged and gpus % size)]
    best = max(fit, default=1)
    proof = f"computed: of the sizes for {room} GPUs, {_listed(fit)} divide {cuts}"
    return Computed({"N": str(best), "M": str(gpus // best)}, proof, bool(fit))


def _cut_in_blocks(context: Context) -> tuple[int, int]:
    """The size that was cut for the ranks, and the block that its parts are no multiple of."""
    layout = context.layout
    found = _PART_AND_BLOCK.search(context.fault.message)
    part, block = (int(found[1]), int(found[2])) if found else (0, 0)
    if not part or not block or not 1 < layout.tp <= MAX_RANKS or layout.ep > 1:
        raise Unanswered("the message or the layout does not tell how the layer is cut")
    whole = part * layout.tp
    if whole % block:
        raise Unanswered(f"{whole} is no whole number of blocks of {block}")
    return whole, block


def _experts(context: Context) -> int:
    found = number_of(context, *EXPERTS)
    if not found:
        raise Unanswered("config.json does not tell how many experts there are")
    return found


def _redundant(context: Context) -> int:
    found = context.argument(("ep-num-redundant-experts",))
    return named_in("^([0-9]+)$", found.value) or 0 if found else 0


def _require_ranks(size: int) -> None:
    if not 1 < size <= MAX_RANKS:
        raise Unanswered("the log does not tell how many GPUs there are")


def _divisors(size: int) -> list[int]:
    return [part for part in range(1, size + 1) if size % part == 0]


def _listed(sizes: Iterable[int]) -> str:
    return ", ".join(map(str, sizes)) or "none"
