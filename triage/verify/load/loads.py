"""Loads as a person asks for them: `8,32` streams, `0.5,2` requests/s, lengths of `32-512`. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, get_args

from triage.common.commands import Next
from triage.common.errors import UsageError
from triage.verify.load.measure import shapes_of
from triage.verify.load.plan import Arrivals
from triage.verify.model import Api, Lengths
from triage.verify.options import Options

MAX_TOKENS = 100_000
MOST_REPEATS = 20  # of each load, where only the fewest are named
LEVEL_TIME = 150.0  # seconds for the loads of one level, all repeats together, at least


class Form(Protocol):
    """How something is written. As text, what it takes: `whole numbers of 1 to 256, ...`."""

    def read(self, text: str) -> Any:
        """Raises ValueError."""
        ...


@dataclass(frozen=True)
class Numbers:
    """`8,32`, given back in order."""

    least: float
    most: float
    whole: bool = False

    def __str__(self) -> str:
        kind = "whole numbers" if self.whole else "numbers"
        return f"{kind} of {self.least:g} to {self.most:g}, each once, with commas between them"

    def read(self, text: str) -> tuple[float, ...]:
        pattern = r"\s*[0-9]{1,3}\s*" if self.whole else r"\s*([0-9]{1,3}(\.[0-9]{1,3})?|\.[0-9]{1,3})\s*"
        words = text.split(",")
        found = {float(word) for word in words if re.fullmatch(pattern, word)}
        if len(found) != len(words) or not all(self.least <= one <= self.most for one in found):
            raise ValueError(text)
        return tuple(sorted(found))


@dataclass(frozen=True)
class Range:
    """`32-512`, or `64` for both ends."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"a number of {self.least} to {self.most}, or two with a dash between them, the smaller first"

    def read(self, text: str) -> Lengths:
        found = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?", text)
        ends = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not self.least <= ends[0] <= ends[1] <= self.most:
            raise ValueError(text)
        return ends


@dataclass(frozen=True)
class OneOf:
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names[:-1])} or {self.names[-1]}"

    def read(self, text: str) -> Any:
        if text not in self.names:
            raise ValueError(text)
        return text


FORMS: Mapping[str, Form] = {
    "concurrency": Numbers(1, 256, whole=True),
    "rate": Numbers(0.01, 500.0),
    "arrivals": OneOf(get_args(Arrivals)),
    "repeats": Range(1, 100),
    "prompt_tokens": Range(1, MAX_TOKENS),
    "max_tokens": Range(2, MAX_TOKENS),
    "api": OneOf(get_args(Api)),
}


def loads_of(
    given: Mapping[str, str | float],
    next: Next,
    *,
    requests: int = Options.requests,
    difference: float = 100 * Options.difference,
    spelled: Callable[[str], str] = str,
) -> Options:
    """What is asked for by names of `FORMS`, and of the others what is usual.

    `difference` is in percent. Raises UsageError, where a name is `spelled` as the caller's user knows it.
    """
    found: dict[str, Any] = {}
    for name, text in given.items():
        form = FORMS[name]
        try:
            found[name] = form.read(str(text))
        except ValueError:
            raise UsageError(f"reading {spelled(name)}", repr(text), f"it takes {form}", next) from None
    if {"rate", "concurrency"} <= found.keys():
        what = f"{spelled('rate')} and {spelled('concurrency')}"
        raise UsageError("reading the options", what, "one takes the place of the other", next)
    levels = tuple(map(int, found.get("concurrency", (Options.concurrency,))))
    least, most = found.get("repeats", (Options.repeats, MOST_REPEATS))
    options = Options(
        requests=requests,
        concurrency=levels[-1],
        sweep=levels,
        rates=found.get("rate", ()),
        arrivals=found.get("arrivals", Options.arrivals),
        repeats=least,
        most_repeats=most if "-" in str(given.get("repeats", "")) else max(least, MOST_REPEATS),
        difference=difference / 100,
        prompt_lengths=found.get("prompt_tokens"),
        output_lengths=found.get("max_tokens"),
        api=found.get("api"),
    )
    comes = (shape.requests / shape.rate if shape.rate else 0.0 for shape in shapes_of(options))
    return replace(options, load_timeout=sum(max(LEVEL_TIME, (least + 1) * time) for time in comes))


def api_key_of(variable: str) -> str:
    """The value of an environment variable, "" for no variable. Raises UsageError when it is not set."""
    if not variable:
        return ""
    if variable not in os.environ:
        raise UsageError(
            "reading the API key from", f"${variable}", "the variable is not set", f"export {variable}=..."
        )
    return os.environ[variable]
