"""`triage why`: what leads to a line of an engine's source, and which options are behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.options import Format, FormatOption


def why(
    place: Annotated[str, typer.Argument(metavar="FILE:LINE", help="A line of the engine's package.")],
    source: Annotated[
        Path,
        typer.Option(metavar="DIR", help="The package, an environment or a checkout."),
    ],
    format: FormatOption = Format.TEXT,
) -> None:
    """Explain what leads to a line of source: its conditions, and the settings that they depend on."""
    from triage.workflows.explaining import why

    console.show(why(place, source), format)
