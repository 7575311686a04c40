"""What the links between a host's ranks cost, and from that what each parallel layout waits for a token."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from triage.common.errors import UnreachableError
from triage.evidence.model import EMPTY, Deployment, Layout
from triage.hosts.connection import Connection
from triage.hosts.sender import send
from triage.remote import LINKS_AGENT

LARGE = 64 << 20  # bytes: what a bandwidth of all ranks is told by
PAIR_LARGE = 16 << 20  # bytes: what that of a pair is told by
ROUNDS = 20
BYTES = 2  # of a number in a hidden state
MAX_WORLD = 64
DECISIVE = ("NCCL_", "GLOO_", "CUDA_", "HIP_", "ROCR_", "HSA_", "NVIDIA_")  # variables, by their beginning

Rank = Annotated[int, Ge(0), Lt(MAX_WORLD)]
Bytes = Annotated[int, Gt(0), Lt(1 << 40)]
Microseconds = Annotated[float, Ge(0), Lt(1e12)]


@dataclass(frozen=True)
class ModelShape:
    """What of a model decides its messages. `moe_layers` have experts on other ranks."""

    hidden: int
    layers: int
    moe_layers: int

    @property
    def message(self) -> int:
        """Bytes of one token's hidden state."""
        return self.hidden * BYTES


@dataclass(frozen=True)
class Timing:
    """A collective of all ranks; `us` is the median, in microseconds."""

    op: Literal["all_reduce", "all_to_all"]
    bytes: Bytes
    us: Microseconds


@dataclass(frozen=True)
class Pair:
    a: Rank
    b: Rank
    bytes: Bytes
    us: Microseconds  # one way

    @property
    def bandwidth(self) -> float | None:
        """GB/s."""
        return self.bytes / self.us / 1000 if self.us else None


@dataclass(frozen=True)
class Links:
    """`peers[a][b]`: GPU a reaches the memory of b directly; empty without GPUs."""

    backend: Literal["nccl", "gloo"]
    torch: str
    devices: tuple[str, ...]
    timings: tuple[Timing, ...]
    pairs: tuple[Pair, ...]
    peers: tuple[tuple[bool, ...], ...]
    missing: Mapping[str, str]

    def us(self, op: str) -> float | None:
        """The microseconds of the smallest message."""
        found = [timing for timing in self.timings if timing.op == op]
        return min(found, key=lambda timing: timing.bytes).us if found else None

    @property
    def latencies(self) -> tuple[Pair, ...]:
        """The pairs with the smallest message."""
        least = min((pair.bytes for pair in self.pairs), default=0)
        return tuple(pair for pair in self.pairs if pair.bytes == least)

    @property
    def bandwidths(self) -> tuple[Pair, ...]:
        """The pairs with a large message; none where only a small one was timed."""
        return tuple(pair for pair in self.pairs if pair.bytes >= PAIR_LARGE)


@dataclass(frozen=True)
class Estimate:
    """What communication alone costs a token of a single request.

    `sends` has how often what is sent, one after the other; `ms` is None where it could not be timed.
    """

    layout: Layout
    sends: tuple[tuple[int, str], ...]
    ms: float | None

    @property
    def bound(self) -> float | None:
        """Tokens a second that one stream cannot exceed."""
        return 1000 / self.ms if self.ms else None

    def share(self, rate: float | None) -> float | None:
        """The share of the time between two tokens at this measured rate."""
        return None if rate is None or self.ms is None else self.ms * rate / 1000


def shape_of(config: Mapping[str, Any]) -> ModelShape | None:
    """Return the shape in a model's config.json, with its `text_config`; None if it does not tell."""
    hidden, layers = _size(config.get("hidden_size")), _size(config.get("num_hidden_layers"))
    if not hidden or not layers:
        return None
    counts = (_size(config.get(key)) for key in ("n_routed_experts", "num_experts", "num_local_experts"))
    experts = next(filter(None, counts), 0)
    dense = _size(config.get("first_k_dense_replace"))
    return ModelShape(hidden, layers, max(0, layers - dense) if experts > 1 else 0)


def environment_of(deployment: Deployment) -> dict[str, str]:
    """What of a service's environment decides how its ranks talk to each other."""
    return {
        name: value
        for name, value in deployment.environment.items()
        if name == "LD_LIBRARY_PATH" or name.startswith(DECISIVE)
    }


def probe(
    connection: Connection,
    python: str,
    world: int,
    message: int,
    environment: Mapping[str, str] = EMPTY,
    deadline: float = 180.0,
    user: str = "",
) -> Links:
    """Time the links between `world` ranks, at `message` bytes and at many, as the service's `user`.

    Raises UnreachableError where that cannot be done.
    """
    from pydantic import TypeAdapter, ValidationError

    small = max(message, 4 * world)
    job = {
        "world": world,
        "sizes": [small, LARGE],
        "pair_sizes": [small, PAIR_LARGE],
        "rounds": ROUNDS,
        "deadline": deadline,
    }
    about = (f"time the links between {world} ranks with {python} on", connection.name)
    reply = send(
        connection,
        LINKS_AGENT,
        job,
        python=python,
        about=about,
        next=f"{python} -c 'import torch'",
        timeout=deadline + 60,
        user=user,
        environment=environment,
    )
    if "refused" in reply:
        raise UnreachableError(*about, str(reply["refused"])[:500], f"{python} -c 'import torch'")
    try:
        return TypeAdapter(Links).validate_python(reply)
    except ValidationError:
        raise UnreachableError(*about, "its answer makes no sense", f"{python} --version") from None


def estimates(links: Links, shape: ModelShape) -> Iterator[Estimate]:
    """Return, for each way to use all ranks, how long the token of a single request waits for them.

    Tensor parallelism sends two all-reduces a layer, pipeline parallelism one hidden state a stage boundary,
    expert parallelism two all-to-alls a MoE layer instead of the second all-reduce.
    """
    world = len(links.devices)
    if world < 2:
        return
    yield _collective(links, Layout(tp=world), (2 * shape.layers, "all_reduce"))
    steps = [pair.us for pair in links.latencies if pair.b == pair.a + 1]
    if steps:
        yield Estimate(Layout(pp=world), ((len(steps), "send"),), sum(steps) / 1000)
    if shape.moe_layers:
        reduces = (2 * shape.layers - shape.moe_layers, "all_reduce")
        yield _collective(links, Layout(tp=world, ep=world), reduces, (2 * shape.moe_layers, "all_to_all"))


def _collective(links: Links, layout: Layout, *sends: tuple[int, str]) -> Estimate:
    times = [links.us(op) for _, op in sends]
    known = [count * us / 1000 for (count, _), us in zip(sends, times, strict=True) if us is not None]
    return Estimate(layout, sends, sum(known) if len(known) == len(sends) else None)


def slow_pairs(links: Links, factor: float = 2.0) -> Sequence[Pair]:
    """Pairs that are clearly slower than the fastest one."""
    fastest = min((pair.us for pair in links.latencies), default=0.0)
    return [pair for pair in links.latencies if pair.us > factor * fastest]


def _size(value: object) -> int:
    """A number that a size can be, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 24 else 0
