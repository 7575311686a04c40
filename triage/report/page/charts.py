"""The plots of a verification, as geometry: what share of requests had at most this latency."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

WIDTH, HEIGHT = 440.0, 180.0
LEFT, RIGHT, TOP, BOTTOM = 40.0, 14.0, 10.0, 34.0
MAX_POINTS = 240
MAX_CURVES = 6
TICKS = 5


@dataclass(frozen=True)
class Tick:
    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """`points` is the value of an SVG polyline; `median` is in milliseconds."""

    name: str
    points: str
    median: float
    samples: int


@dataclass(frozen=True)
class Chart:
    title: str
    curves: tuple[Curve, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


@dataclass(frozen=True)
class ChartStep:
    """A phase of a start, as a share of the whole start: where it begins and how long it is, in percent."""

    name: str
    begin: float
    share: float
    seconds: float


def curves(verification: Mapping[str, Any]) -> Iterator[Chart]:
    """Time to first token and gaps between chunks, one curve for each level."""
    for title, read in (("time to first token, ms", _first), ("gap between chunks, ms", _gaps)):
        samples: dict[tuple[float, int], list[float]] = {}
        for load in verification["loads"]:
            good = [request for request in load["requests"] if not request["error"] and request["chunks"]]
            values = [value for request in good for value in read(request)]
            samples.setdefault((load.get("rate", 0.0), load["concurrency"]), []).extend(values)
        series = [(_name(*level), sorted(values)) for level, values in sorted(samples.items()) if values]
        if series:
            yield _chart(title, series[:MAX_CURVES])


def phases(start: Mapping[str, Any]) -> Iterator[ChartStep]:
    """The steps of a start, each from the moment when it was logged to the next."""
    total = start["seconds"]
    if total <= 0:
        return
    marks = [(phase["name"], min(phase["at"], total)) for phase in start["phases"]]
    if not marks or marks[0][1] > 0:
        marks.insert(0, ("before the first word", 0.0))
    for (name, at), (_, end) in pairwise([*marks, ("ready", total)]):
        yield ChartStep(name, 100 * at / total, 100 * max(0.0, end - at) / total, max(0.0, end - at))


def _first(request: Mapping[str, Any]) -> Sequence[float]:
    return [1000 * (request["chunks"][0] - request["sent"])]


def _gaps(request: Mapping[str, Any]) -> Sequence[float]:
    return [1000 * (later - earlier) for earlier, later in pairwise(request["chunks"])]


def _name(rate: float, concurrency: int) -> str:
    if rate:
        return f"{rate:g} requests/s"
    return "1 stream" if concurrency == 1 else f"{concurrency} streams"


def _chart(title: str, series: Sequence[tuple[str, list[float]]]) -> Chart:
    # one request that hung must not flatten all others
    top = max(values[min(len(values) - 1, int(0.99 * len(values)))] for _, values in series) or 1.0
    across = tuple(
        Tick(_x(top * n / TICKS, top), f"{top * n / TICKS:.{0 if top >= 20 else 1}f}")
        for n in range(TICKS + 1)
    )
    up = tuple(Tick(_y(n / 4), f"{25 * n}%") for n in range(5))
    return Chart(title, tuple(_curve(name, values, top) for name, values in series), across, up)


def _curve(name: str, values: Sequence[float], top: float) -> Curve:
    count = len(values)
    chosen = sorted(
        {round(n * (count - 1) / min(count, MAX_POINTS)) for n in range(MAX_POINTS + 1)} | {count - 1}
    )
    chosen = [index for index in chosen if index < count]
    points = [f"{_x(min(values[0], top), top):.1f},{_y(0):.1f}"]
    points += [f"{_x(min(values[n], top), top):.1f},{_y((n + 1) / count):.1f}" for n in chosen]
    return Curve(name, " ".join(points), values[count // 2], count)


def _x(value: float, top: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * value / top


def _y(share: float) -> float:
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share)
