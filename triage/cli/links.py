"""`triage links`: what the links between the ranks of a host cost, and which layout that favours."""

from __future__ import annotations

from typing import Annotated

import typer

from triage.cli import console
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    Format,
    FormatOption,
    HostArgument,
    UnitOption,
)
from triage.cli.reach import Reach


@with_groups
def links(
    host: HostArgument,
    unit: UnitOption = "",
    world: Annotated[
        int, typer.Option(min=0, max=64, help="Ranks; 0: all GPUs, or as many as the service has.")
    ] = 0,
    while_serving: Annotated[
        bool, typer.Option("--while-serving", help="Measure although the service runs, and slow it down.")
    ] = False,
    format: FormatOption = Format.TEXT,
    *,
    reach: Reach,
) -> None:
    """Time collectives between the ranks of HOST with the service's own torch.

    NCCL where there are GPUs for all ranks, gloo on CPUs else. From the model's sizes follows how long
    each parallel layout communicates for a token. Changes nothing.
    """
    from triage.workflows.links import measure_links

    reached = reach.host(host)
    unit = unit or reached.settings.unit
    with reach.connection(reached) as connection:
        told = measure_links(connection, unit, world, while_serving, console.working)
    console.show(told, format)
