"""What stands for the placeholders of a setting, computed for the run that failed.

Each function takes the remedy and the context and gives values for placeholders, with what they were computed
from; it raises Unanswered when something is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from triage.evidence.model import Unanswered
from triage.rules import numbers
from triage.rules.context import Context
from triage.rules.schema import Computation, SettingRemedy

MAX_RANKS = 1024  # the sizes may come from a log
SHARES = {"sglang": "mem_fraction_static", "vllm": "gpu_memory_utilization"}
GREATEST_SHARE = 0.97
_PART_AND_BLOCK = re.compile(
    r"= ?(\d{1,8})\b.{0,120}? is not divisible by\s"
    r".{0,40}?\b(?:block_[nk]|min_thread_[nk]|group_size) = ?(\d{1,6})\b"
)
_VIABLE = re.compile(r"minimum viable = .{0,40}?(0\.\d{1,6})\)")
_FREE_ON_DEVICE = re.compile(r"\(([\d.]{1,9})/([\d.]{1,9}) GiB\)")


@dataclass(frozen=True)
class Computed:
    """Values by placeholder, and from what; `helps` is False where none would do."""

    values: Mapping[str, str]
    proof: str
    helps: bool | None = None


def compute(spec: SettingRemedy, context: Context) -> Computed:
    """Raises Unanswered."""
    if spec.named:
        found = re.search(spec.named, context.fault.message)
        if found is None:
            raise Unanswered("the message does not tell")
        return Computed({"N": found[1]}, f"the message gives {found[1]}")
    if not spec.computes:
        return Computed({}, "")
    return _COMPUTATIONS[spec.computes](spec, context)


def _share_for_allocation(spec: SettingRemedy, context: Context) -> Computed:
    failed = numbers.allocation(context.fault.message)
    share = _share(context)
    if failed is None:
        raise Unanswered("the message does not tell how much was free")
    if failed.lacking <= 0:
        raise Unanswered("there was room, but not in one piece")
    found = numbers.share_without(share, failed.lacking, failed.total)
    weights = _logged(context, "weights_gib")
    least = weights * numbers.GIB / failed.total if weights else 0.0
    proof = (
        f"computed: with {share:g} of {_gib(failed.total)}, {_gib(failed.lacking)} were lacking for the "
        "allocation that failed"
    )
    if found <= least:
        return Computed(
            {"N": f"{max(found, 0):.2f}"}, f"{proof}, and the weights alone take {least:.2f}", False
        )
    return Computed({"N": f"{found:.2f}"}, proof, True)


def _share_of_free(spec: SettingRemedy, context: Context) -> Computed:
    found = _FREE_ON_DEVICE.search(context.fault.message)
    free, total = (_number(found[1]), _number(found[2])) if found else (0.0, 0.0)
    if not 0 < free <= total:
        raise Unanswered("the message does not tell how much was free")
    share = numbers.share_of_free(free, total)
    return Computed({"N": f"{share:.2f}"}, f"computed: {free:g} GiB of {total:g} GiB were free", None)


def _share_for_cache(spec: SettingRemedy, context: Context) -> Computed:
    told = _VIABLE.search(context.fault.message)
    before, after = _logged(context, "free_before_load_gib"), _logged(context, "free_after_load_gib")
    if told:
        taken, said = _number(told[1]), "the message says that the weights take"
    elif 0 < after < before:
        taken, said = 1 - after / before, f"the weights left {after:g} GB of {before:g} GB, so they take"
    else:
        raise Unanswered("the log does not tell what the weights left")
    share = numbers.next_share(taken)
    return Computed({"N": f"{share:.2f}"}, f"computed: {said} {taken:.3f}", share <= GREATEST_SHARE)


def _tensor_size(spec: SettingRemedy, context: Context) -> Computed:
    layout = context.layout
    gpus, current = layout.tp * layout.pp, layout.tp
    if not 1 < gpus <= MAX_RANKS:
        raise Unanswered("the log does not tell how many GPUs there are")
    known = dict(_numbers(spec, context))
    if not known:
        raise Unanswered("neither the message nor config.json gives the numbers")
    key_value = known.pop("num_key_value_heads", None)
    fit = [size for size in numbers.sizes_that_divide(known.values(), key_value, gpus) if size != current]
    fit = [size for size in fit if gpus % size == 0] or fit
    said = ", ".join(f"{name} {number}" for name, number in known.items())
    said += f", num_key_value_heads {key_value}" if key_value else ""
    best = max((size for size in fit if size < current), default=max(fit, default=1))
    sizes = ", ".join(map(str, fit)) or "none"
    proof = f"computed: of the sizes for {gpus} GPUs, {sizes} divide {said}"
    return Computed({"N": str(best), "M": str(gpus // best)}, proof, bool(fit))


def _block_size(spec: SettingRemedy, context: Context) -> Computed:
    size, proof = _whole_blocks(context)
    return Computed({"N": str(size), "M": str(context.layout.tp * context.layout.pp // size)}, proof, True)


def _expert_size(spec: SettingRemedy, context: Context) -> Computed:
    """Experts that are cut in so many parts less are shared out to so many groups more."""
    size, proof = _whole_blocks(context)
    return Computed({"N": str(context.layout.tp // size)}, proof, True)


def _whole_blocks(context: Context) -> tuple[int, str]:
    """The largest tensor-parallel size whose parts are whole blocks, and from what."""
    layout = context.layout
    found = _PART_AND_BLOCK.search(context.fault.message)
    part, block = (int(found[1]), int(found[2])) if found else (0, 0)
    if not part or not block or not 1 < layout.tp <= MAX_RANKS or layout.ep > 1:
        raise Unanswered("the message or the layout does not tell how the layer is cut")
    whole = part * layout.tp
    fit = [size for size in range(1, layout.tp) if layout.tp % size == 0 and whole // size % block == 0]
    if not fit:
        raise Unanswered(f"{whole} is no whole number of blocks of {block}")
    each = whole // fit[-1]
    return fit[
        -1
    ], f"computed: {part} on each of {layout.tp} ranks are {whole}; {each} are {each // block} x {block}"


def _one_stage(spec: SettingRemedy, context: Context) -> Computed:
    layout = context.layout
    gpus = layout.tp * layout.pp
    if not 1 < gpus <= MAX_RANKS:
        raise Unanswered("the log does not tell how many GPUs there are")
    heads = context.config_number("num_attention_heads")
    proof = f"computed: {heads} attention heads over {gpus} GPUs"
    return Computed({}, proof, heads % gpus == 0)


def _gpus_for_weights(spec: SettingRemedy, context: Context) -> Computed:
    weights, memory = context.checkpoint.weights(), _memory(context)
    layout = context.layout
    ranks = layout.tp * layout.pp
    needed = numbers.gpus_for(weights, memory)
    proof = (
        f"computed: {_gib(weights)} of weights over {ranks} GPUs are {_gib(weights // ranks)} on each; "
        f"each has {_gib(memory)}"
    )
    if needed <= ranks:
        raise Unanswered(f"{proof}: the weights would fit")
    return Computed({"N": str(needed)}, proof, True)


_COMPUTATIONS: dict[Computation, Callable[[SettingRemedy, Context], Computed]] = {
    "share-for-allocation": _share_for_allocation,
    "share-of-free": _share_of_free,
    "share-for-cache": _share_for_cache,
    "tensor-size": _tensor_size,
    "block-size": _block_size,
    "expert-size": _expert_size,
    "one-stage": _one_stage,
    "gpus-for-weights": _gpus_for_weights,
}


def _numbers(spec: SettingRemedy, context: Context) -> Iterator[tuple[str, int]]:
    """Those of the message and of config.json that must divide."""
    found = re.search(spec.divides, context.fault.message) if spec.divides else None
    if found and re.fullmatch(r"[0-9]{1,9}", found[1]):
        yield "what the message names", int(found[1])
    for key in spec.keys:
        try:
            yield key, context.config_number(key)
        except Unanswered:
            continue


def _share(context: Context) -> float:
    """Of the card's memory, that the run was given."""
    name = SHARES.get(context.engine, "")
    found = context.argument((name.replace("_", "-"),)) if name else None
    share = _number(found.value) if found else 0.0
    if not 0 < share <= 1:
        raise Unanswered("the log does not tell which share of the memory it was given")
    return share


def _memory(context: Context) -> int:
    """Bytes of the smallest card, as the message or the driver tells."""
    failed = numbers.allocation(context.fault.message)
    if failed:
        return failed.total
    from triage.evidence.queries import GpuInventory

    found = [gpu.memory_total for gpu in context.evidence.ask(GpuInventory()).require().gpus]
    sizes = [size for size in found if size]
    if not sizes:
        raise Unanswered("the driver names no GPU")
    return min(sizes) << 20


def _logged(context: Context, fact: str) -> float:
    """0.0 where the log does not tell."""
    return _number(context.incident.facts.get(fact, ""))


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII) else 0.0


def _gib(size: int) -> str:
    return f"{size / numbers.GIB:.2f} GiB"
