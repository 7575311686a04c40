"""The options of the loads that `triage verify` and `triage bench` measure with."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from triage.errors import UsageError

if TYPE_CHECKING:
    from triage.verify.model import Lengths
    from triage.verify.options import Options

MAX_STREAMS = 256
MAX_RATE = 500.0  # requests/s
MAX_TOKENS = 100_000
MAX_REPEATS = 100
MOST_REPEATS = 20  # of each load, where only the fewest are named
LEVEL_TIME = 150.0  # seconds for the loads of one level, all repeats together, at least


class ArrivalsChoice(str, Enum):
    POISSON = "poisson"
    CONSTANT = "constant"


class ApiChoice(str, Enum):
    COMPLETIONS = "completions"
    CHAT = "chat"
    GENERATE = "generate"


RequestsOption = Annotated[int, typer.Option(min=0, max=10_000, help="Requests a load; 0 for none.")]
ConcurrencyOption = Annotated[
    str,
    typer.Option(
        metavar="N[,N...]",
        help="Streams at once of the loads beside one at a time: `4`, or a sweep `8,32`. 4 without --rate.",
        show_default=False,
    ),
]
RateOption = Annotated[
    str,
    typer.Option(
        metavar="R[,R...]",
        help="Requests a second, whether others have ended or not, instead of streams at once: `0.5,2,8`.",
        show_default=False,
    ),
]
ArrivalsOption = Annotated[ArrivalsChoice, typer.Option(help="How requests at a --rate come.")]
RepeatsOption = Annotated[
    str,
    typer.Option(
        metavar="N[-N]",
        help="How often each load is run at least, and at most until the spread allows a verdict.",
    ),
]
DifferenceOption = Annotated[
    float, typer.Option(min=0.1, max=100, metavar="PERCENT", help="The difference that repeats are to tell.")
]
PromptTokensOption = Annotated[
    str, typer.Option(metavar="N[-N]", help="Tokens of a prompt, about: `64`, or between two, `32-512`.")
]
MaxTokensOption = Annotated[
    str, typer.Option(metavar="N[-N]", help="Tokens of an answer: `32`, or between two, `16-64`.")
]
ApiOption = Annotated[
    ApiChoice | None,
    typer.Option(help="The interface to ask; the first that answers.", show_default=False),
]
ApiKeyOption = Annotated[str, typer.Option(help="Environment variable that holds the API key.")]


def loads_of(
    requests: int,
    concurrency: str,
    repeats: str,
    prompt_tokens: str,
    max_tokens: str,
    api_key_env: str,
    *,
    rate: str = "",
    arrivals: ArrivalsChoice = ArrivalsChoice.POISSON,
    difference: float = 5.0,
    api: ApiChoice | None = None,
) -> Options:
    """What the options ask for. Raises UsageError."""
    from triage.verify.measure import shapes_of
    from triage.verify.options import Options

    if rate and concurrency:
        raise UsageError(
            "reading the options", "--rate and --concurrency", "one takes the place of the other", _HELP
        )
    levels = tuple(map(int, _numbers("--concurrency", concurrency or "4", 1, MAX_STREAMS)))
    rates = tuple(_numbers("--rate", rate, 0.01, MAX_RATE)) if rate else ()
    prompts = _range("--prompt-tokens", prompt_tokens, 1, MAX_TOKENS)
    outputs = _range("--max-tokens", max_tokens, 2, MAX_TOKENS)
    least, most = _range("--repeats", repeats, 1, MAX_REPEATS)
    options = Options(
        requests=requests,
        concurrency=levels[-1],
        sweep=levels,
        rates=rates,
        arrivals=arrivals.value,
        repeats=least,
        most_repeats=most if "-" in repeats else max(least, MOST_REPEATS),
        difference=difference / 100,
        prompt_tokens=prompts[1],
        prompt_lengths=prompts,
        max_tokens=outputs[1],
        output_lengths=outputs,
        api=api.value if api else None,
        api_key=api_key_of(api_key_env),
    )
    comes = (shape.requests / shape.rate if shape.rate else 0.0 for shape in shapes_of(options))
    return replace(options, load_timeout=sum(max(LEVEL_TIME, (least + 1) * time) for time in comes))


def _numbers(option: str, text: str, least: float, most: float) -> list[float]:
    """`8,32`, in order: whole where the least is. Raises UsageError."""
    whole = isinstance(least, int)
    pattern = r"\s*[0-9]{1,3}\s*" if whole else r"\s*([0-9]{1,3}(\.[0-9]{1,3})?|\.[0-9]{1,3})\s*"
    words = text.split(",")
    found = {float(word) for word in words if re.fullmatch(pattern, word)}
    if len(found) != len(words) or not all(least <= one <= most for one in found):
        kind = "whole numbers" if whole else "numbers"
        takes = f"it takes {kind} of {least:g} to {most:g}, each once, with commas between them"
        raise UsageError(f"reading {option}", repr(text), takes, _HELP)
    return sorted(found)


def _range(option: str, text: str, least: int, most: int) -> Lengths:
    """`32-512`, or `64` for both ends. Raises UsageError."""
    found = re.fullmatch(r"\s*([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?", text)
    ends = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if not least <= ends[0] <= ends[1] <= most:
        takes = f"it takes a number of {least} to {most}, or two with a dash between them, the smaller first"
        raise UsageError(f"reading {option}", repr(text), takes, _HELP)
    return ends


def api_key_of(variable: str) -> str:
    """The value of an environment variable, "" for no variable. Raises UsageError when it is not set."""
    if not variable:
        return ""
    if variable not in os.environ:
        raise UsageError(
            "reading the API key from", f"${variable}", "the variable is not set", f"export {variable}=..."
        )
    return os.environ[variable]


_HELP = "triage verify --help"
