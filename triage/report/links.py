"""Links and what they cost a token, as text and as `triage.links/1`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich.text import Text

from triage.common.wording import counted
from triage.evidence.catalogue.gpus import Topology
from triage.report.safe import safe_line
from triage.verify.layouts.launch_commands import name_of
from triage.verify.layouts.links import LARGE, PAIR_LARGE, Estimate, Links, slow_pairs
from triage.workflows.links import LinksResult

SHOWN = 16  # ranks of a matrix
CALLED = {"all_reduce": "all-reduce", "all_to_all": "all-to-all", "send": "send to the next stage"}
MEANING = {
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "the processor's PCIe bridge",
    "NODE": "PCIe bridges of one NUMA node",
    "SYS": "the link between two processors",
}


def lines(told: LinksResult) -> Iterator[Text]:
    links = told.links
    kinds = ", ".join(dict.fromkeys(safe_line(name) for name in links.devices))
    ranks = counted(len(links.devices), "rank")
    yield Text(
        f"{ranks} over {links.backend} · {kinds} · torch {safe_line(links.torch)}",
        "bold",
    )
    if told.topology is not None:
        yield from _topology(told.topology)
    if links.peers and not all(map(all, links.peers)):
        yield Text(
            "not every GPU reaches every other one's memory directly (P2P): messages go through the host",
            "yellow",
        )
    yield Text("ALL RANKS TOGETHER", "bold cyan")
    for timing in links.timings:
        rate = f"  {timing.bytes / timing.us / 1000:8.1f} GB/s" if timing.bytes >= LARGE and timing.us else ""
        yield Text(f"  {timing.op:11} {_size(timing.bytes):>8}  {timing.us:12,.0f} us{rate}")
    for op, why in links.missing.items():
        yield Text(f"  {safe_line(op)}: not timed, {safe_line(why)}", "yellow")
    yield from _matrix(links)
    yield from _estimates(told)


def _meaning(kind: str) -> str:
    return MEANING.get(kind, "NVLink" if kind.startswith("NV") else "?")


def _topology(topology: Topology) -> Iterator[Text]:
    kinds = ", ".join(
        f"{counted(count, 'pair')} {safe_line(kind)} ({_meaning(kind)})"
        for kind, count in topology.kinds.items()
    )
    if kinds:
        yield Text(f"between GPUs: {kinds}")
    nodes: dict[str, list[str]] = {}
    for gpu, node in topology.numa.items():
        nodes.setdefault(node, []).append(gpu)
    if nodes:
        told = "; ".join(f"{safe_line(node)}: {safe_line(' '.join(gpus))}" for node, gpus in nodes.items())
        yield Text(f"NUMA nodes: {told}")


def _matrix(links: Links) -> Iterator[Text]:
    """Both figures of each two ranks in one table; the pairs with a high latency are marked."""
    world = len(links.devices)
    if not links.pairs or world > SHOWN:
        return
    slow = {(pair.a, pair.b) for pair in slow_pairs(links)}
    us = {(pair.a, pair.b): pair.us for pair in links.latencies}
    rates = {(pair.a, pair.b): pair.bandwidth for pair in links.bandwidths}
    yield Text("EACH TWO RANKS, one way", "bold cyan")
    below = f"; below: GB/s of {_size(PAIR_LARGE)}" if rates else ""
    yield Text(f"  above the diagonal: us of {_size(links.latencies[0].bytes)}{below}", "dim")
    yield Text("      " + "".join(f"{other:>8}" for other in range(world)), "dim")
    for rank in range(world):
        line = Text(f"  {rank:>4}")
        for other in range(world):
            pair = (min(rank, other), max(rank, other))
            value = None if rank == other else us.get(pair) if rank < other else rates.get(pair)
            cell = "-" if value is None else f"{value:.0f}" if rank < other else f"{value:.1f}"
            line.append(cell.rjust(8), "yellow" if pair in slow else "")
        yield line


def _estimates(told: LinksResult) -> Iterator[Text]:
    shape = told.shape
    if shape is None:
        yield Text("note: the model's sizes are not known, so nothing is estimated", "yellow")
        return
    experts = f", {shape.moe_layers} with experts" if shape.moe_layers else ""
    yield Text("COMMUNICATION FOR ONE TOKEN of a single request", "bold cyan")
    yield Text(f"  {shape.layers} layers{experts}, {_size(shape.message)} a message", "dim")
    rows = [("layout", "what is sent, one after the other", "ms", "at most", "measured", "share of it")]
    for one in told.estimates:
        rate = told.rates.get(name_of(one.layout))
        share = one.share(rate)
        sends = ", ".join(f"{count} x {CALLED[op]}" for count, op in one.sends)
        rows.append(
            (
                name_of(one.layout),
                sends,
                "-" if one.ms is None else f"{one.ms:.2f}",
                _rate(one.bound, 0),
                _rate(rate, 1),
                "-" if share is None else f"{share:.0%}",
            )
        )
    wide = max(len(row[1]) for row in rows)
    for number, (layout, sends, ms, bound, rate_, share_) in enumerate(rows):
        line = f"  {layout:8} {sends:{wide}} {ms:>9} {bound:>14} {rate_:>12} {share_:>12}"
        yield Text(line, "" if number else "dim")
    yield Text("  at most: if nothing were computed; share: of the time between two measured tokens", "dim")


def document(told: LinksResult) -> dict[str, Any]:
    return {
        "schema": "triage.links/1",
        **asdict(told.links),
        "shape": None if told.shape is None else asdict(told.shape),
        "topology": None
        if told.topology is None
        else {"kinds": dict(told.topology.kinds), "numa": dict(told.topology.numa)},
        "estimates": [_estimate(one, told.rates.get(name_of(one.layout))) for one in told.estimates],
    }


def _estimate(one: Estimate, rate: float | None) -> dict[str, Any]:
    return {
        "layout": name_of(one.layout),
        "sends": {op: count for count, op in one.sends},
        "messages": sum(count for count, _ in one.sends),
        "ms": one.ms,
        "bound": one.bound,
        "measured": rate,
        "share": one.share(rate),
    }


def _size(bytes: int) -> str:
    if bytes < 1024:
        return f"{bytes} B"
    return f"{bytes >> 20} MiB" if bytes >= 1 << 20 else f"{bytes / 1024:.0f} KiB"


def _rate(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f} tok/s"
