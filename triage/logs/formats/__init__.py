"""The shapes in which log lines come, one family a module.

A family peels one layer of prefix off the front of a line: `peel(line)` takes the prefix away, fills
in what it said, and answers whether it did. `STARTS` holds the characters that its prefix can begin
with ("": any). Layers are peeled until no family answers, so they nest in any order. A family whose
prefix looks like ordinary text has `applies(sample)` and is used only where the sample bears it out.
`ERRORS` are patterns that find, in a raw log, every line that the family reads as an error record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from triage.common.errors import UsageError
from triage.engines import ENGINES
from triage.logs.formats import containers, journal, kernel, logfmt, loggers, native, platforms, structured
from triage.logs.reading.line import Line

MAX_LAYERS = 8

Peel = Callable[[Line], bool]


class PrefixFamily(Protocol):
    STARTS: str

    def peel(self, line: Line) -> bool: ...


class Doubtful(PrefixFamily, Protocol):
    def applies(self, sample: Sequence[str]) -> bool: ...


EXPORT, PRETTY = "journal-export", "journal-pretty"


@dataclass(frozen=True)
class LogFormat:
    """A family, and the names by which a user asks for it instead of detection."""

    names: tuple[str, ...]
    family: Any


FORMATS = (
    LogFormat(("json", EXPORT, PRETTY), structured),
    *(
        LogFormat((name,), import_module(f"triage.logs.formats.{name}"))
        for name in (engine.log.format for engine in ENGINES.values())
        if name
    ),
    LogFormat(("native",), native),
    LogFormat(("journal",), journal),
    LogFormat(("kernel",), kernel),
    LogFormat(("logfmt",), logfmt),
    LogFormat(("logging",), loggers),
    LogFormat(("container",), containers),
    LogFormat(("platform",), platforms),
    LogFormat(("compose",), containers.Compose),
    LogFormat(("srun",), platforms.Srun),
    LogFormat(("quoted",), platforms.Quoted),
)
"""Every format. Where two families could take the same text, the more specific one comes first."""

NAMES: Mapping[str, object] = {name: each.family for each in FORMATS for name in each.names}
DOUBTFUL: tuple[object, ...] = tuple(each.family for each in FORMATS if hasattr(each.family, "applies"))
FAMILIES: tuple[object, ...] = tuple(each.family for each in FORMATS if each.family not in DOUBTFUL)
ERRORS: tuple[str, ...] = tuple(error for each in FORMATS for error in getattr(each.family, "ERRORS", ()))


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
