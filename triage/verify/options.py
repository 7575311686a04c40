"""How to verify."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Options:
    """How to verify. Times in seconds.

    Requests that run before a restart may take `drain` to end. `timeout` bounds the start; so much
    `patience` of silence in which the service does nothing ends it before, 0 for never. `request_timeout`
    bounds one request, `load_timeout` all loads together: repeats that would not fit into it are left out.
    Loads run at 1, at `concurrency` and at each of `sweep` at once.
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
    repeats: int = 3
    api_key: str = field(default="", repr=False)
    patches: tuple[str, ...] = ()  # ids of patches in place, for the record
    store: bool = True
