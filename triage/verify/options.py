"""How to verify."""

from __future__ import annotations

from dataclasses import dataclass, field

from triage.verify.load.plan import Arrivals
from triage.verify.load.spread import DIFFERENCE
from triage.verify.model import Api, Lengths


@dataclass(frozen=True)
class Options:
    """How to verify. Times in seconds.

    Requests that run before a restart may take `drain` to end. `timeout` bounds the start; so much
    `patience` of silence in which the service does nothing ends it before, 0 for never. `request_timeout`
    bounds one request, `load_timeout` all loads together: repeats that would not fit into it are left out.
    Loads run at 1, at `concurrency` and at each of `sweep` at once; with `rates` (requests/s) at 1 and at
    each of them, `repeats` times and up to `most_repeats`, until a relative `difference` can be told.
    `prompt_lengths` and `output_lengths`, shortest and longest, take the place of one length for all.
    """

    restart: bool = True
    drain: float = 30.0
    timeout: float = 900.0
    restart_budget: int = 0
    patience: float = 300.0
    request_timeout: float = 120.0
    load_timeout: float = 300.0
    prompt_tokens: int = 64
    max_tokens: int = 32
    requests: int = 8
    concurrency: int = 4
    sweep: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    arrivals: Arrivals = "poisson"
    prompt_lengths: Lengths | None = None
    output_lengths: Lengths | None = None
    repeats: int = 3
    most_repeats: int = 20
    difference: float = DIFFERENCE
    api: Api | None = None  # None: the first that the service knows
    tool: bool = False  # measure with the engine's own benchmark as well
    tool_timeout: float = 600.0
    api_key: str = field(default="", repr=False)
    patches: tuple[str, ...] = ()  # ids of patches in place, for the record
    store: bool = True

    @property
    def prompts(self) -> Lengths:
        return self.prompt_lengths or (self.prompt_tokens, self.prompt_tokens)

    @property
    def outputs(self) -> Lengths:
        return self.output_lengths or (self.max_tokens, self.max_tokens)
