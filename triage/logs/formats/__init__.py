"""The shapes in which log lines come, one family a module.

A family peels one layer of prefix off the front of a line: `peel(line)` takes the prefix away, fills
in what it said, and answers whether it did. `STARTS` holds the characters that its prefix can begin
with ("": any). Layers are peeled until no family answers, so they nest in any order. A family whose
prefix looks like ordinary text has `applies(sample)` and is used only where the sample bears it out.
`ERRORS` are patterns that find, in a raw log, every line that the family reads as an error record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

from triage.common.errors import UsageError
from triage.engines import ENGINES
from triage.logs.formats import containers, journal, kernel, logfmt, loggers, native, platforms, structured
from triage.logs.reading.line import Line

MAX_LAYERS = 8

Peel = Callable[[Line], bool]


class Family(Protocol):
    STARTS: str

    def peel(self, line: Line) -> bool: ...


class Doubtful(Family, Protocol):
    def applies(self, sample: Sequence[str]) -> bool: ...


_OF_ENGINES: Mapping[str, Any] = {
    name: import_module(f"triage.logs.formats.{name}")
    for name in (engine.log.format for engine in ENGINES.values())
    if name
}
# where two families could take the same text, the more specific one comes first
FAMILIES: tuple[object, ...] = (
    structured,
    *_OF_ENGINES.values(),
    native,
    journal,
    kernel,
    logfmt,
    loggers,
    containers,
    platforms,
)
ERRORS: tuple[str, ...] = (
    *structured.ERRORS,
    *(error for family in _OF_ENGINES.values() for error in family.ERRORS),
    *native.ERRORS,
    *kernel.ERRORS,
    *logfmt.ERRORS,
    *loggers.ERRORS,
)
DOUBTFUL: tuple[object, ...] = (containers.Compose, platforms.Srun, platforms.Quoted)

EXPORT, PRETTY = "journal-export", "journal-pretty"
NAMES: Mapping[str, object] = {
    "json": structured,
    **_OF_ENGINES,
    "native": native,
    "journal": journal,
    "kernel": kernel,
    "logfmt": logfmt,
    "logging": loggers,
    "container": containers,
    "platform": platforms,
    "compose": containers.Compose,
    "srun": platforms.Srun,
    "quoted": platforms.Quoted,
    EXPORT: structured,
    PRETTY: structured,
}
"""What a user can ask for instead of detection, by name."""


def named(format: str) -> tuple[object, ...]:
    """The families of a format, `journal,vllm`. Raises UsageError for a name that is not known."""
    names = [name.strip() for name in format.split(",")]
    for name in names:
        if name not in NAMES:
            raise UsageError(
                "reading the log",
                f"as {name!r}",
                "there is no such format",
                f"name some of {', '.join(NAMES)}",
            )
    return tuple(NAMES[name] for name in names)


class Peeler:
    """The layers to try, by the first character of what is left of a line."""

    def __init__(self, extra: Sequence[object] = (), families: Sequence[object] = FAMILIES) -> None:
        self._by_start: dict[str, tuple[Peel, ...]] = {}
        self._families = (*extra, *families)

    def __call__(self, line: Line) -> None:
        for _ in range(MAX_LAYERS):
            text = line.text
            if not text:
                return
            for peel in self._candidates(text[0]):
                if peel(line):
                    break
            else:
                return
            # what follows a record's own prefix is its text; only JSON can hold another log's line
            if line.head and peel is not structured.peel:
                return

    def _candidates(self, first: str) -> tuple[Peel, ...]:
        known = self._by_start.get(first)
        if known is None:
            known = tuple(
                family.peel  # type: ignore[attr-defined]
                for family in self._families
                if not family.STARTS or first in family.STARTS  # type: ignore[attr-defined]
            )
            if len(self._by_start) < 1024:
                self._by_start[first] = known
        return known
