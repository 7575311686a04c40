"""The shape of a file of what a program says when it fails. Unknown keys are errors that name it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from triage.common.errors import UsageError
from triage.common.patterns import backtracking
from triage.common.yaml_files import load_model
from triage.logs.faults.fault_lines import FaultLine, Witness
from triage.logs.faults.readers import READERS
from triage.logs.faults.weight import Weight
from triage.logs.model import FaultKind

_TERM = re.compile(r"<<([A-Z_]{1,40})>>")


def _regex(pattern: str) -> str:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if slow := backtracking(pattern):
        raise ValueError(f"it may take very long on a log that somebody made for it: {slow}")
    return pattern


def _reader(name: str) -> str:
    if name and name not in READERS:
        raise ValueError(f"there is no reader {name}; there are {', '.join(READERS)}")
    return name


Regex = Annotated[str, AfterValidator(_regex)]


class LinePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LineSample(LinePart):
    """A line, with whatever stands before it in a log, and what it must give: `type`, and `message` if given.

    `gives: null` is a line that the entry fits and that is no failure.
    """

    line: str
    type: str | None = None
    message: str | None = None


class Entry(LinePart):
    """One thing that a program says. See `FaultLine`."""

    needle: Annotated[str, Field(min_length=4, max_length=200)]
    pattern: Regex = ""
    kind: FaultKind
    type: str = ""
    weight: Literal[
        "root", "death", "timeout", "consequence", "weak", "service", "error", "teardown", "benign"
    ]
    because: str = ""
    read: Annotated[str, AfterValidator(_reader)] = ""
    inside: bool = False
    by: Witness = ""
    alone: Regex = ""
    samples: Annotated[tuple[LineSample, ...], Field(min_length=1)]
    near_misses: Annotated[tuple[str, ...], Field(min_length=1)]

    def line(self) -> FaultLine:
        own = self.model_dump(exclude={"samples", "near_misses", "weight"})
        return FaultLine(**own, weight=Weight[self.weight.upper()])


class LinesFile(LinePart):
    """What one program or family says. Of two entries that fit a line that of the lower `order` counts, then
    the one that stands first. `terms` are parts of patterns by name, in which they stand as `<<NAME>>`."""

    family: Annotated[str, Field(pattern=r"^[a-z0-9]+([.-][a-z0-9]+)*$")]
    order: Annotated[int, Field(ge=0, le=10_000)] = 1000
    terms: dict[str, Regex] = {}
    lines: tuple[Entry, ...]

    @model_validator(mode="before")
    @classmethod
    def _with_terms(cls, data: Any) -> Any:
        terms = data.get("terms") if isinstance(data, dict) else None
        if not isinstance(terms, dict) or not isinstance(data.get("lines"), list):
            return data

        def filled(text: Any) -> Any:
            return (
                _TERM.sub(lambda found: str(terms.get(found[1], found[0])), text)
                if isinstance(text, str)
                else text
            )

        lines = [
            {key: filled(value) if key in ("pattern", "alone") else value for key, value in line.items()}
            if isinstance(line, dict)
            else line
            for line in data["lines"]
        ]
        return {**data, "lines": lines}


def read_files(files: Sequence[Path]) -> tuple[LinesFile, ...]:
    """Return the files in the order in which their entries are tried. Raises UsageError with file and key."""
    read = [load_model(path, LinesFile, "lines") for path in files]
    families: dict[str, Path] = {}
    for path, each in zip(files, read, strict=True):
        if each.family in families:
            happened = f"its family {each.family!r} is already that of {families[each.family]}"
            raise UsageError("reading lines", str(path), happened, "give one of them another name")
        families[each.family] = path
    return tuple(sorted(read, key=lambda each: each.order))


def read_lines(files: Sequence[Path]) -> tuple[FaultLine, ...]:
    """Return all entries of the files in order. Raises as `read_files`."""
    return tuple(entry.line() for file in read_files(files) for entry in file.lines)
