"""What is found out from the source about a fault. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

SiteKind = Literal["raise", "assert", "log", "expression"]
EndKind = Literal["option", "config", "environment", "file", "version", "machine"]


@dataclass(frozen=True)
class RaiseSite:
    """The statement that failed. `values` are what the message tells of this run, by the text of the
    expression: `{"num_heads": "40", "tp_size": "16"}`."""

    path: str
    line: int
    function: str
    kind: SiteKind
    code: str
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class Guard:
    """A condition that led to the site, as code, and as it reads with the values of this run.

    `holds` is None where its value could not be computed; False says that a value is not what it seems.
    """

    line: int
    code: str
    filled: str
    holds: bool | None


@dataclass(frozen=True)
class SourceEnd:
    """Something that a person can change and that the condition depends on, named as a user writes it.

    `value` is that of this run, "" where it is not known; `path` are at most eight lines of code, `FILE:LINE
    code`, from the site to where the value comes in; `nearest` are values that would make a closed condition
    false, the nearest first: computed from the source, not tried.
    """

    kind: EndKind
    name: str
    value: str = ""
    default: str = ""
    path: tuple[str, ...] = ()
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explained:
    """The site, the conditions that led there, what they depend on, best first, and what was not read."""

    site: RaiseSite
    guards: tuple[Guard, ...]
    ends: tuple[SourceEnd, ...]
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether a condition was computed with known values, and none of them speaks against it."""
        told = [guard.holds for guard in self.guards if guard.holds is not None]
        return bool(told) and all(told)
