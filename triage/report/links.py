"""Links and what they cost a token, as text and as `triage.links/1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from triage.report.safe import safe_line
from triage.verify.layouts import name_of
from triage.verify.links import LARGE, Estimate, Links, slow_pairs

SHOWN = 16  # ranks of a matrix


def lines(links: Links, estimates: Sequence[Estimate], rates: Mapping[str, float]) -> Iterator[Text]:
    """`rates`: the decode rate that was measured of a layout, by its name."""
    kinds = ", ".join(dict.fromkeys(safe_line(name) for name in links.devices))
    yield Text(
        f"{len(links.devices)} ranks over {links.backend} · {kinds} · torch {safe_line(links.torch)}", "bold"
    )
    for timing in links.timings:
        size = f"{timing.bytes >> 20} MiB" if timing.bytes >= LARGE else f"{timing.bytes / 1024:.0f} KiB"
        rate = f"  {timing.bytes / timing.us / 1000:.1f} GB/s" if timing.bytes >= LARGE and timing.us else ""
        yield Text(f"  {timing.op:11} {size:>8}  {timing.us:12,.0f} us{rate}")
    for op, why in links.missing.items():
        yield Text(f"  {safe_line(op)}: not timed, {safe_line(why)}", "yellow")
    yield from _matrix(links)
    if links.peers and not all(map(all, links.peers)):
        yield Text(
            "  not every GPU reaches every other one's memory directly: messages go through the host",
            "yellow",
        )
    yield from _estimates(estimates, rates)


def _matrix(links: Links) -> Iterator[Text]:
    """One way between each two ranks, in microseconds; the slow ones marked."""
    world = len(links.devices)
    if not links.pairs or world > SHOWN:
        return
    slow = slow_pairs(links)
    us = {(pair.a, pair.b): pair for pair in links.pairs}
    yield Text(f"  one way, us, {links.pairs[0].bytes / 1024:.0f} KiB", "dim")
    yield Text("      " + "".join(f"{other:>8}" for other in range(1, world)), "dim")
    for rank in range(world - 1):
        line = Text(f"  {rank:>4}" + " " * 8 * rank)
        for other in range(rank + 1, world):
            pair = us.get((rank, other))
            line.append("-".rjust(8) if pair is None else f"{pair.us:8.0f}", "yellow" if pair in slow else "")
        yield line


def _estimates(estimates: Sequence[Estimate], rates: Mapping[str, float]) -> Iterator[Text]:
    if not estimates:
        return
    yield Text("WHAT A TOKEN WAITS FOR LINKS, at batch 1", "bold cyan")
    titles = ("messages", "ms a token", "at most tok/s", "measured tok/s")
    yield Text(f"  {'layout':10}" + "".join(f"{title:>16}" for title in titles), "dim")
    for one in estimates:
        name = name_of(one.layout)
        rate = rates.get(name)
        cells = (str(one.messages), _figure(one.ms, 2), _figure(one.bound, 0), _figure(rate, 1))
        yield Text(f"  {name:10}" + "".join(f"{cell:>16}" for cell in cells))


def document(links: Links, estimates: Sequence[Estimate], rates: Mapping[str, float]) -> dict[str, Any]:
    return {
        "schema": "triage.links/1",
        **asdict(links),
        "estimates": [
            {
                "layout": name_of(one.layout),
                "messages": one.messages,
                "ms": one.ms,
                "bound": one.bound,
                "measured": rates.get(name_of(one.layout)),
            }
            for one in estimates
        ],
    }


def _figure(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"
