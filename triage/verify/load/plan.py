"""What the requests of a load ask for, and when: the same in every run, so that runs compare. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from triage.verify.model import Lengths

Arrivals = Literal["poisson", "constant"]


@dataclass(frozen=True)
class LoadShape:
    """A load: at most `concurrency` requests at once, `rate` of them a second; 0: the next when one ends."""

    requests: int
    concurrency: int
    prompts: Lengths
    outputs: Lengths
    rate: float = 0.0
    arrivals: Arrivals = "poisson"


@dataclass(frozen=True)
class RequestPlan:
    """One request; `due` seconds after the load's start, at the earliest."""

    prompt_tokens: int
    max_tokens: int
    due: float


def planned(shape: LoadShape) -> list[RequestPlan]:
    """Lengths are uniform between the shortest and the longest."""
    draw = random.Random("lengths of a load").randint
    return [RequestPlan(draw(*shape.prompts), draw(*shape.outputs), due) for due in _times(shape)]


def _times(shape: LoadShape) -> list[float]:
    """Return times from 0 on. A Poisson process is stretched, so that the whole rate is exact."""
    if not shape.rate:
        return [0.0] * shape.requests
    source = random.Random("arrivals of a load")
    constant = shape.arrivals == "constant"
    gaps = [1.0 if constant else source.expovariate(1.0) for _ in range(shape.requests - 1)]
    stretch = len(gaps) / shape.rate / sum(gaps) if gaps else 0.0
    return [round(at * stretch, 6) for at in accumulate(gaps, initial=0.0)]
