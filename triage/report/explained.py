"""What the engine's source says of a fault, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from rich.text import Text

from triage.explain.model import Explained, SourceEnd
from triage.report.safe import safe_line

SHOWN_ENDS = 3
SHOWN_LINES = 8
_HOLDS = {True: "it holds", False: "it would not hold: a value is not what it seems", None: ""}


def lines(found: Explained) -> Iterator[Text]:
    """The site, its conditions with the values of the run, and what they depend on."""
    site = found.site
    tail = "/".join(site.path.split("/")[-4:])
    yield Text(f"  {tail}:{site.line} in {site.function}", "bold")
    yield Text(f"    {safe_line(site.code, 200)}")
    for name, value in site.values.items():
        yield Text(f"    {safe_line(f'{name} = {value}', 160)}", "dim")
    for guard in found.guards[:3]:
        yield Text(f"  if {safe_line(guard.code, 160)}   (line {guard.line})")
        told = _HOLDS[guard.holds]
        if told:
            yield Text(f"     {safe_line(guard.filled, 160)}: {told}", "dim")
    if found.ends:
        yield Text("  which depends on, most likely first:")
    for end in found.ends[:SHOWN_ENDS]:
        yield from _end(end)
    for note in found.notes[:3]:
        yield Text(f"  note: {safe_line(note, 200)}", "yellow")


def _end(end: SourceEnd) -> Iterator[Text]:
    value = f" = {end.value}" if end.value else ""
    default = f" (default {end.default})" if end.default else ""
    yield Text(f"    {end.kind:11} {safe_line(end.name + value + default, 160)}", "cyan")
    if end.nearest:
        yield Text(f"      nearest values, computed from the source, not tried: {', '.join(end.nearest)}")
    for step in end.path[1:SHOWN_LINES]:
        yield Text(f"      {safe_line(step, 200)}", "dim")


def document(found: Explained) -> dict[str, Any]:
    """`triage.why/1`."""
    return {"schema": "triage.why/1", **parts(found)}


def parts(found: Explained) -> dict[str, Any]:
    """The keys of `incidents[].explained`."""
    return {
        "site": {**asdict(replace(found.site, values={})), "values": dict(found.site.values)},
        "guards": [asdict(guard) for guard in found.guards],
        "ends": [{**asdict(end), "path": list(end.path), "nearest": list(end.nearest)} for end in found.ends],
        "notes": list(found.notes),
    }
