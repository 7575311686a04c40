"""The options of the loads that `triage verify` and `triage bench` measure with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from triage.common.commands import command

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


ApiKeyOption = Annotated[str, typer.Option(help="Environment variable that holds the API key.")]


@dataclass(frozen=True)
class LoadChoice:
    """The loads that are asked for, as they are spelled on the command line."""

    concurrency: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Streams at once of the loads beside one at a time: `4`, or a sweep `8,32`. "
            "4 without --rate.",
            show_default=False,
        ),
    ] = ""
    rate: Annotated[
        str,
        typer.Option(
            metavar="R[,R...]",
            help="Requests a second, whether others have ended or not, instead of streams at once: "
            "`0.5,2,8`.",
            show_default=False,
        ),
    ] = ""
    arrivals: Annotated[ArrivalsChoice, typer.Option(help="How requests at a --rate come.")] = (
        ArrivalsChoice.POISSON
    )
    repeats: Annotated[
        str,
        typer.Option(
            metavar="N[-N]",
            help="How often each load is run at least, and at most until the spread allows a verdict.",
        ),
    ] = "3-20"
    difference: Annotated[
        float,
        typer.Option(min=0.1, max=100, metavar="PERCENT", help="The difference that repeats are to tell."),
    ] = 5.0
    prompt_tokens: Annotated[
        str, typer.Option(metavar="N[-N]", help="Tokens of a prompt, about: `64`, or between two, `32-512`.")
    ] = "64"
    max_tokens: Annotated[
        str, typer.Option(metavar="N[-N]", help="Tokens of an answer: `32`, or between two, `16-64`.")
    ] = "32"
    api: Annotated[
        ApiChoice | None,
        typer.Option(help="The interface to ask; the first that answers.", show_default=False),
    ] = None

    def options(self, verb: str, requests: int, api_key_env: str) -> Options:
        """What is asked for, of so many requests a load. Raises UsageError that names the command's help."""
        from triage.verify.load.loads import FORMS, api_key_of, loads_of

        texts = {name: _text(getattr(self, name)) for name in FORMS}
        wanted = {name: text for name, text in texts.items() if text or name not in OPTIONAL}
        next = command(verb, "", "--help")
        options = loads_of(wanted, next, requests=requests, difference=self.difference, spelled=_option)
        return replace(options, api_key=api_key_of(api_key_env))


def _text(value: str | Enum | None) -> str:
    return str(value.value if isinstance(value, Enum) else value or "")


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
