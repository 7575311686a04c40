"""The command line: one module a command. Heavy imports happen inside the commands."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from triage import __version__
from triage.cli import capture, diagnose, patch, policy, replay, run, verify
from triage.cli.console import print_error
from triage.errors import ExitCode, TriageError

app = typer.Typer(
    name="triage",
    help="Find the first fault of a crashed inference service, confirm its cause on the host, "
    "mend it reversibly, and prove it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(diagnose.diagnose)
app.add_typer(patch.app, name="patch")
app.command()(verify.verify)
app.command()(capture.capture)
app.command()(replay.replay)
app.command()(run.run)
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
    try:
        app()
    except TriageError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output has gone (`| head`); the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
