"""`triage scan`: an installed engine, read for known defects and for the class that they are of."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from triage.cli import console
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    UnitOption,
)
from triage.cli.places import directory_of, is_directory, named
from triage.cli.reach import Reach
from triage.common.errors import ExitCode
from triage.workflows.knowledge import known_patches, rule_directories


class ScanFormat(str, Enum):
    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


@with_groups
def scan(
    target: Annotated[
        str,
        typer.Argument(
            metavar="HOST|DIR",
            help="A host; or a directory with a / in it, as ./x: an environment, site-packages, a checkout.",
        ),
    ],
    unit: UnitOption = "",
    package_root: Annotated[
        str, typer.Option(help="The package's directory on the host, `.../site-packages/PACKAGE`.")
    ] = "",
    python: Annotated[str, typer.Option("--python", help="The host's interpreter.")] = "",
    patches: Annotated[
        list[Path] | None, typer.Option(help="A directory of further patches.", show_default=False)
    ] = None,
    format: Annotated[
        ScanFormat, typer.Option("--format", help="Text for people, versioned JSON, or SARIF 2.1.0.")
    ] = ScanFormat.TEXT,
    *,
    reach: Reach,
) -> None:
    """Read the engine on HOST or in DIR for defects of pipeline stages, known ones and others of the class.

    Reads only. Exit code 0 when nothing is found, 1 when something is.
    """
    from triage.workflows.scan import scan_directory, scan_host

    known = known_patches(patches)
    if is_directory(target):
        found = scan_directory(directory_of(target), known)
    else:
        with (
            named(target),
            reach.connection(reached := reach.host(target)) as connection,
            console.working(f"reading {target}"),
        ):
            unit = unit or reached.settings.unit
            found = scan_host(connection, known, unit, package_root, python, rule_directories())
    console.show(replace(found, target=target), format)
    raise typer.Exit(ExitCode.FOUND if found.plans or found.findings else ExitCode.OK)
