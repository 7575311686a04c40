"""The options of the loads that `triage verify` and `triage bench` measure with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.verify.options import Options


OPTIONAL = ("concurrency", "rate", "api")  # not given where empty


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
    command: str, requests: int, difference: float, api_key_env: str, given: Mapping[str, str | Enum | None]
) -> Options:
    """What the options of a command ask for; `given` are those that triage.verify.load.loads reads.

    Raises UsageError.
    """
    from triage.verify.load.loads import loads_of

    wanted = {name: text for name, text in given.items() if text or name not in OPTIONAL}
    texts = {name: str(text.value if isinstance(text, Enum) else text) for name, text in wanted.items()}
    options = loads_of(
        texts, f"triage {command} --help", requests=requests, difference=difference, spelled=_option
    )
    return replace(options, api_key=api_key_of(api_key_env))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def api_key_of(variable: str) -> str:
    """The value of an environment variable, "" for no variable. Raises UsageError when it is not set."""
    if not variable:
        return ""
    if variable not in os.environ:
        raise UsageError(
            "reading the API key from", f"${variable}", "the variable is not set", f"export {variable}=..."
        )
    return os.environ[variable]
