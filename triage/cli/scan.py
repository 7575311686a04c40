"""`triage scan`: an installed engine, read for known defects and for the class that they are of."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console
from triage.cli.option_groups import with_groups
from triage.cli.options import (
    UnitOption,
    rule_directories,
)
from triage.cli.places import directory_of, is_directory, named
from triage.cli.reach import Reach
from triage.common.errors import ExitCode

if TYPE_CHECKING:
    from triage.patching.schema import Patch
    from triage.scan.model import ScanResult


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
    from triage.common.config import load_config, with_configured
    from triage.patching.load import load_patches

    known = load_patches(with_configured(load_config().patches, patches))
    with _without_collecting():
        if is_directory(target):
            found = _directory(directory_of(target), known)
        else:
            with (
                named(target),
                reach.connection(reached := reach.host(target)) as connection,
                console.working(f"reading {target}"),
            ):
                from triage.scan.read import from_host
                from triage.scan.run import scan as run
                from triage.workflows.patch_target import find_target

                place = find_target(
                    connection,
                    known,
                    unit=unit or reached.settings.unit,
                    package_root=package_root,
                    python=python,
                    rules=rule_directories(),
                    log_needed=False,
                )
                root, _, package = place.package_root.rstrip("/").rpartition("/")
                place.tree.prefetch(m for p in known if p.package == package for m in (package, *p.modules))
                found = run(root, package, from_host(place.tree, package), place.tree, known, place.context)
    _show(found, target, format)
    raise typer.Exit(ExitCode.FOUND if found.plans or found.findings else ExitCode.OK)


def _directory(directory: Path, known: tuple[Patch, ...]) -> ScanResult:
    from triage.patching.trees import DirectoryTree, find_root
    from triage.scan.read import from_directory
    from triage.scan.run import scan as run

    root, package = find_root(directory.absolute())
    return run(str(root), package, from_directory(root, package), DirectoryTree(root), known, {})


@contextlib.contextmanager
def _without_collecting() -> Iterator[None]:
    """Syntax trees are most of what is made here; looking for cycles in them takes half of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _show(found: ScanResult, target: str, format: ScanFormat) -> None:
    from rich.text import Text

    from triage.report import json, sarif
    from triage.report import scan as text

    if format is ScanFormat.TEXT:
        screen = console.stdout()
        screen.print(Text("\n").join(text.lines(found)), soft_wrap=True)  # one by one takes half a second
        return
    print(json.dumps(sarif.document(found) if format is ScanFormat.SARIF else text.document(found, target)))
