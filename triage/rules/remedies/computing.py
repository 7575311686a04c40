"""What stands for the placeholders of a setting, computed for the run that failed.

Each function takes the remedy and the context and gives values for placeholders, with what they were computed
from; it raises Unanswered when something is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from triage.engines import engine_named
from triage.evidence.model import Unanswered
from triage.rules.arithmetic import numbers, sizes
from triage.rules.arithmetic.sizes import gib
from triage.rules.context import Context
from triage.rules.remedies.computed import Computed
from triage.rules.schema import Computation, SettingRemedy

GREATEST_SHARE = 0.97
_VIABLE = re.compile(r"minimum viable = .{0,40}?(0\.\d{1,6})\)")
_FREE_ON_DEVICE = re.compile(r"\(([\d.]{1,9})/([\d.]{1,9}) GiB\)")


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
        f"computed: with {share:g} of {gib(failed.total)}, {gib(failed.lacking)} were lacking for the "
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


_COMPUTATIONS: dict[Computation, Callable[[SettingRemedy, Context], Computed]] = {
    "share-for-allocation": _share_for_allocation,
    "share-of-free": _share_of_free,
    "share-for-cache": _share_for_cache,
    "tensor-size": sizes.tensor_size,
    "block-size": sizes.block_size,
    "larger-size": sizes.larger_size,
    "expert-block-size": sizes.expert_block_size,
    "expert-size": sizes.expert_size,
    "redundant-experts": sizes.redundant_experts,
    "data-parallel-size": sizes.data_parallel_size,
    "one-stage": sizes.one_stage,
    "gpus-for-weights": sizes.gpus_for_weights,
}


def _share(context: Context) -> float:
    """Return the share of the card's memory that the run was given."""
    flag = engine_named(context.engine).command.memory_share
    found = context.argument((flag,)) if flag else None
    share = _number(found.value) if found else 0.0
    if not 0 < share <= 1:
        raise Unanswered("the log does not tell which share of the memory it was given")
    return share


def _logged(context: Context, fact: str) -> float:
    """0.0 where the log does not tell."""
    return _number(context.incident.facts.get(fact, ""))


def _number(text: str) -> float:
    return float(text) if re.fullmatch(r"\d{1,9}(?:\.\d{1,9})?", text, re.ASCII) else 0.0
