"""The command line: one module a command. Heavy imports happen inside the commands."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from triage import __version__
from triage.cli import (
    bench,
    capture,
    case,
    console,
    diagnose,
    explain,
    history,
    hosts,
    links,
    logs,
    patch,
    policy,
    replay,
    report,
    rules,
    run,
    scan,
    verify,
    why,
)
from triage.common.errors import DEFECT, INTERRUPTED, TriageError

app = typer.Typer(
    name="triage",
    help="Find the first fault of a crashed inference service, confirm its cause on the host, "
    "fix it reversibly, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(diagnose.diagnose)
app.command()(logs.logs)
app.add_typer(hosts.app, name="hosts")
app.add_typer(patch.app, name="patch")
app.command()(scan.scan)
app.command()(verify.verify)
app.command()(history.history)
app.command()(bench.bench)
app.command()(links.links)
app.command()(capture.capture)
app.add_typer(case.app, name="case")
app.command()(replay.replay)
app.command()(run.run)
app.command()(report.report)
app.command()(explain.explain)
app.command()(why.why)
app.add_typer(rules.app, name="rules")
app.command()(policy.policy)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"triage {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options of every command."""


def main() -> None:
    """Run a command; a TriageError becomes one paragraph on stderr and its exit code."""
    console.guard_streams()
    try:
        try:
            app(prog_name="triage")
        finally:
            sys.stdout.flush()
    except TriageError as error:
        console.print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception:
        console.print_defect()
        sys.exit(DEFECT)
