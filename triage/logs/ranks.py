"""Ranks as a person names them: which exist, and which said nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product

from triage.logs.run import LogRun
from triage.logs.settle import by_label

ORDER = ("DP", "PP", "PCP", "ATTN_CP", "MOE_DP", "TP", "DCP", "EP", "ETP", "rank")
MAX_RANKS = 4096

_LABEL = re.compile(r"([A-Za-z_]+)(\d{1,6})$")


def parts(label: str) -> tuple[int, str, int]:
    match = _LABEL.match(label)
    if match is None:
        return len(ORDER), label, 0
    name = match[1]
    return ORDER.index(name) if name in ORDER else len(ORDER), name, int(match[2])


def name_of(ranks: Iterable[str]) -> str:
    """`PP3 TP0`: the labels of one process, in the usual order."""
    return " ".join(sorted(ranks, key=parts))


def names(who: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """The names of several processes, in order."""
    return tuple(name_of(ranks) for ranks in sorted(who, key=lambda ranks: sorted(map(parts, ranks))))


def known(run: LogRun) -> list[frozenset[str]]:
    """Every rank that the log or the layout names, in order, each by its most exact name."""
    named = {by_label(run, ranks) for ranks in run.ranks}
    seen = {ranks for ranks in named if not all(label.startswith("rank") for label in ranks)} or named
    if not seen:
        return []  # it failed before any rank was there
    dimensions = {parts(label)[1] for ranks in seen for label in ranks}
    if dimensions <= {"PP", "TP"}:
        pp, tp = run.size("pp_size"), run.size("tp_size")
        if 1 < pp * tp <= MAX_RANKS and run.size("nnodes") == 1 and run.size("dp_size") == 1:
            axes = [
                [f"PP{n}" for n in range(pp)] if pp > 1 else [],
                [f"TP{n}" for n in range(tp)] if tp > 1 else [],
            ]
            seen |= {frozenset(labels) for labels in product(*(axis for axis in axes if axis))}
    whole = max((len(ranks) for ranks in seen), default=0)
    return sorted(
        (ranks for ranks in seen if len(ranks) == whole), key=lambda ranks: sorted(map(parts, ranks))
    )
