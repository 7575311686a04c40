"""What the links between a host's ranks cost, and from that what each parallel layout waits for a token."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from triage.errors import UnreachableError
from triage.evidence.model import Layout
from triage.hosts.connection import Connection
from triage.jsontext import parse_json
from triage.verify.service import reason_of

LARGE = 64 << 20  # bytes: what a bandwidth is told by
ROUNDS = 20
BYTES = 2  # of a number in a hidden state
MAX_WORLD = 64

Rank = Annotated[int, Ge(0), Lt(MAX_WORLD)]
Bytes = Annotated[int, Gt(0), Lt(1 << 40)]
Microseconds = Annotated[float, Ge(0), Lt(1e12)]


@dataclass(frozen=True)
class Shape:
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
        """Of the smallest message."""
        found = [timing for timing in self.timings if timing.op == op]
        return min(found, key=lambda timing: timing.bytes).us if found else None

    def bandwidth(self, op: str) -> float | None:
        """GB/s of the largest message: its bytes over its time."""
        found = [timing for timing in self.timings if timing.op == op]
        if not found:
            return None
        largest = max(found, key=lambda timing: timing.bytes)
        return largest.bytes / largest.us / 1000 if largest.us else None


@dataclass(frozen=True)
class Estimate:
    """What communication alone costs a token at batch 1; `ms` is None where it could not be timed."""

    layout: Layout
    messages: int
    ms: float | None

    @property
    def bound(self) -> float | None:
        """Tokens a second that one stream cannot exceed."""
        return 1000 / self.ms if self.ms else None


def shape_of(config: Mapping[str, Any]) -> Shape | None:
    """Of a model's config.json (its `text_config` taken in); None where it does not tell."""
    hidden, layers = _size(config.get("hidden_size")), _size(config.get("num_hidden_layers"))
    if not hidden or not layers:
        return None
    counts = (_size(config.get(key)) for key in ("n_routed_experts", "num_experts", "num_local_experts"))
    experts = next(filter(None, counts), 0)
    dense = _size(config.get("first_k_dense_replace"))
    return Shape(hidden, layers, max(0, layers - dense) if experts > 1 else 0)


def probe(connection: Connection, python: str, world: int, message: int, deadline: float = 180.0) -> Links:
    """Time the links between `world` ranks. Raises UnreachableError where that cannot be done."""
    from pydantic import TypeAdapter, ValidationError

    source = importlib.resources.files("triage.verify").joinpath("linkagent.py").read_text("utf-8")
    job = {"world": world, "sizes": [max(message, 4 * world), LARGE], "rounds": ROUNDS, "deadline": deadline}
    output = connection.run(
        (python, "-B", "-c", source), stdin=json.dumps(job).encode(), timeout=deadline + 60
    )
    what = (f"time the links between {world} ranks with {python} on", connection.name)
    if output.code != 0:
        raise UnreachableError(*what, reason_of(output), f"{python} -c 'import torch'")
    try:
        reply = parse_json(output.stdout.strip().rpartition(b"\n")[2])
        if isinstance(reply, dict) and "refused" in reply:
            raise UnreachableError(*what, str(reply["refused"])[:500], f"{python} -c 'import torch'")
        return TypeAdapter(Links).validate_python(reply)
    except (ValueError, ValidationError):
        raise UnreachableError(*what, "its answer makes no sense", f"{python} --version") from None


def estimates(links: Links, shape: Shape) -> Iterator[Estimate]:
    """For each way to use all ranks, what a token waits for them at batch 1.

    Tensor parallelism sends two all-reduces a layer, pipeline parallelism one hidden state a stage boundary,
    expert parallelism two all-to-alls a MoE layer beside the all-reduces of attention, one a layer.
    """
    world = len(links.devices)
    if world < 2:
        return
    reduce, exchange = links.us("all_reduce"), links.us("all_to_all")
    yield Estimate(Layout(tp=world), 2 * shape.layers, _ms(2 * shape.layers, reduce))
    steps = [pair.us for pair in links.pairs if pair.b == pair.a + 1]
    if steps:
        yield Estimate(Layout(pp=world), len(steps), sum(steps) / 1000)
    if shape.moe_layers:
        rest, count = _ms(shape.layers, reduce), shape.layers + 2 * shape.moe_layers
        moe = _ms(2 * shape.moe_layers, exchange)
        whole = rest + moe if rest is not None and moe is not None else None
        yield Estimate(Layout(tp=world, ep=world), count, whole)


def slow_pairs(links: Links, factor: float = 2.0) -> Sequence[Pair]:
    """Pairs that are clearly slower than the fastest one."""
    fastest = min((pair.us for pair in links.pairs), default=0.0)
    return [pair for pair in links.pairs if pair.us > factor * fastest]


def _ms(count: int, us: float | None) -> float | None:
    return None if us is None else count * us / 1000


def _size(value: object) -> int:
    """A number that a size can be, else 0."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 24 else 0
