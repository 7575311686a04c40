"""What a verification measures and says. Times in seconds unless a name ends in `_ms`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

VerdictName = Literal["better", "same", "worse", "inconclusive", "failed"]


Api = Literal["completions", "chat", "generate"]
Lengths = tuple[int, int]  # shortest and longest, in tokens


@dataclass(frozen=True)
class Request:
    """One streamed request. Times are seconds after the run's start; `chunks` when text arrived."""

    sent: float
    chunks: tuple[float, ...]
    prompt_tokens: int | None
    output_tokens: int
    finish_reason: str | None
    error: str = ""  # "" when it succeeded: status, in-stream error, no finish_reason, short output, ...
    asked_prompt: int = 0  # tokens; 0 in results that do not keep what was asked for
    asked_tokens: int = 0
    due: float = 0.0  # not to be sent before


@dataclass(frozen=True)
class Load:
    """One run of requests, at one concurrency or at one rate.

    `rate` is in requests/s, and `concurrency` then the most that may run at once; 0: the next when one ends.
    """

    concurrency: int
    prompt_tokens: int  # asked for, the most
    max_tokens: int
    token_source: Literal["usage", "chunks"]
    wall: float
    requests: tuple[Request, ...]
    api: Api = "completions"
    ignore_eos: bool = True
    rate: float = 0.0
    arrivals: Literal["poisson", "constant"] = "poisson"
    prompt_lengths: Lengths | None = None  # None: all alike
    output_lengths: Lengths | None = None


@dataclass(frozen=True)
class Metrics:
    """Figures of one load, defined in docs/benchmarks.md."""

    concurrency: int
    completed: int
    failed: int
    failures: Mapping[str, int]  # kind -> count
    ttft_ms: float | None  # medians
    itl_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    decode_rate: float | None  # tokens/s of one stream, 1 / median TPOT
    output_throughput: float  # tokens/s, all streams, over wall time
    near_zero_gaps: float  # share of chunk gaps under 0.5 ms: delivery in bursts
    ttft_p99_ms: float | None = None
    itl_p99_ms: float | None = None
    effective_concurrency: float = 0.0  # sum of E2E over wall time
    prompt_tokens: int = 0  # median, as the server counted; as asked for where it did not
    max_tokens: int = 0
    token_source: Literal["usage", "chunks"] = "usage"  # noqa: S105
    rate: float = 0.0  # requests/s that were asked for; 0: the next when one ends
    arrivals: Literal["poisson", "constant"] = "poisson"
    sent_rate: float | None = None  # requests/s, as they were sent and as they ended; None without a rate
    served_rate: float | None = None
    pace: str = ""  # why the load was not what the rate asked for, "" where it was
    prompt_lengths: Lengths | None = None  # asked for; None: all alike
    output_lengths: Lengths | None = None

    @property
    def level(self) -> tuple[float, int]:
        """Figures of one level are repeats of each other. One stream sorts first."""
        return self.rate, self.concurrency


@dataclass(frozen=True)
class StartPhase:
    """One step of a start: what the engine logged, seconds after the restart."""

    name: str
    at: float


@dataclass(frozen=True)
class Start:
    """One start of the service that was followed."""

    invocation: str
    pid: int | None
    ready: bool
    seconds: float
    phases: tuple[StartPhase, ...]
    failure: str = ""  # why it is not ready: died, time-out, no completion
    died: bool = False  # it ended or was not started, which a new diagnosis can explain
    restarted: bool = True  # False: it ran already, and was only asked whether it answers


@dataclass(frozen=True)
class MetricChange:
    """One figure before and now. `spread` is the relative difference that repeats alone can make."""

    figure: str  # "decode rate", "output throughput", "TTFT", "TPOT"
    unit: str
    concurrency: int
    before: float
    now: float
    spread: float
    verdict: Literal["better", "same", "worse", "unclear"]
    rate: float = 0.0

    @property
    def at(self) -> str:
        return f"{self.rate:g} requests/s" if self.rate else f"concurrency {self.concurrency}"

    @property
    def relative(self) -> float:
        return (self.now - self.before) / self.before if self.before else 0.0


@dataclass(frozen=True)
class ByTool:
    """The loads as the engine's own benchmark measured them, in our words; `note` says where they differ.

    `failure` is why there are no figures, "" where there are.
    """

    tool: str
    metrics: tuple[Metrics, ...]
    note: str
    failure: str = ""


@dataclass(frozen=True)
class Verification:
    """The whole proof, as stored in the history."""

    at: str  # ISO 8601, UTC
    deployment: str
    engine: str
    version: str
    arguments: Mapping[str, str]
    patches: tuple[str, ...]  # ids of patches in place
    model: str
    start: Start
    sample: str  # the text of the deterministic completion
    loads: tuple[Load, ...]
    metrics: tuple[Metrics, ...]
    verdict: VerdictName
    reason: str
    notes: tuple[str, ...] = ()  # what the figures alone do not say
    compared_with: str = ""  # `at` of the stored result that it was compared with
    changes: tuple[MetricChange, ...] = ()
    repeats: str = ""  # how many there were of each load, and why no more
    by_tool: ByTool | None = None
    long_sample: str = ""  # the text after a long prompt, which crosses chunks and stages
