"""`triage history`: what was measured so far, and what new results are compared with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console
from triage.cli.options import Format, FormatOption, UnitOption
from triage.common.commands import command
from triage.common.errors import UsageError

if TYPE_CHECKING:
    from triage.verify.history import History


def history(
    host: Annotated[
        str, typer.Argument(metavar="[HOST]", help="Its results; without it, those of every host.")
    ] = "",
    unit: UnitOption = "",
    pin: Annotated[
        str,
        typer.Option(
            metavar="AT|last", help="Compare new results with that one from now on.", show_default=False
        ),
    ] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            "--import",
            metavar="FILE",
            help="Store a result of the engine's own benchmark, guidellm or aiperf for --unit.",
            show_default=False,
        ),
    ] = None,
    unpin: Annotated[bool, typer.Option("--unpin", help="Compare with the latest one again.")] = False,
    format: FormatOption = Format.TEXT,
) -> None:
    """List the stored results of `triage verify`, oldest first. Reads only, unless it pins or imports."""
    from triage.verify.history import History, Listing

    store = History()
    if file is not None:
        _import(store, file, host, unit)
    names = [pair for pair in store.deployments(host) if unit in ("", pair[1])]
    if pin or unpin:
        if not names:
            whose = " on ".join(filter(None, (unit, host))) or "any host"
            raise UsageError("pinning", f"a result of {whose}", "none is stored", command("history"))
        if len(names) > 1:
            found = ", ".join(f"{deployment} on {name}" for name, deployment in names)
            raise UsageError(
                "pinning", "a result", f"it takes one deployment; there are {found}", "name HOST and --unit"
            )
        if unpin:
            store.unpin(*names[0])
        if pin:
            store.pin(*names[0], pin)
    console.show(Listing(store, tuple(names)), format)


def _import(store: History, file: Path, host: str, unit: str) -> None:
    from datetime import datetime, timezone

    from triage.verify.load.other_tools import read_foreign, verification_of

    if not host or not unit:
        raise UsageError("importing", str(file), "it is not said whose result it is", "name HOST and --unit")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    store.append(host, verification_of(read_foreign(file), unit, now))
