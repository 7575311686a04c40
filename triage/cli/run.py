"""`triage run`: a playbook on a host."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from triage.cli import console, next_command
from triage.cli.option_groups import with_groups
from triage.cli.options import Format, FormatOption, HostArgument
from triage.cli.reach import Reach
from triage.cli.report import ReportOption, require_suffix, write_result
from triage.common.commands import command

if TYPE_CHECKING:
    from triage.playbook.model import ConsentAsked, Event


@with_groups
def run(
    playbook: Annotated[
        str, typer.Argument(metavar="PLAYBOOK", help="A playbook's file, or the name of a shipped one.")
    ],
    host: HostArgument,
    var: Annotated[
        list[str] | None,
        typer.Option("--var", metavar="NAME=VALUE", help="A variable of the playbook.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Agree to every step that asks.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where a run of the same playbook was interrupted.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Show what each step would do, and do none.")
    ] = False,
    canary: Annotated[
        int, typer.Option("--canary", min=0, max=1000, help="Of several hosts, so many first.")
    ] = 1,
    wave: Annotated[
        int, typer.Option("--wave", min=1, max=100, help="Percent of several hosts at a time, after these.")
    ] = 25,
    format: FormatOption = Format.TEXT,
    report: ReportOption = None,
    *,
    reach: Reach,
) -> None:
    """Run the steps of PLAYBOOK on HOST, asking before each that changes something.

    HOST may be several, or a group of the inventory: then one question is asked, and the hosts are taken
    in waves, of which none is begun after a host has failed.

    Exit code 0 when all is done, 4 when a step was refused, else that of the step that failed.
    """
    from triage.playbook.load import load_playbook
    from triage.playbook.plan import PlannedRun, plan
    from triage.playbook.variables import resolve

    require_suffix(report)
    loaded = load_playbook(playbook)
    variables = resolve(loaded, var or ())
    if check:
        console.show(PlannedRun(loaded, host, plan(loaded, host, variables)), format)
        return
    from triage.playbook.progress import Progress

    known = reach.hosts()
    if known.is_several(host):
        from triage.cli.rollout import roll_out_on
        from triage.playbook.waves import waves_of

        waves = waves_of([each.name for each in known.select(host)], canary, wave)

        def is_interrupted(each: str) -> bool:
            return resume and Progress(loaded, each, variables).path.exists()

        rolled = roll_out_on(loaded, playbook, waves, yes, format, is_interrupted)
        write_result(rolled, report)
        raise typer.Exit(rolled.exit_code)
    from triage.cli.actions import open_actions
    from triage.playbook import runner
    from triage.report import playbook as shown

    out = console.stderr() if format is Format.JSON else console.stdout()
    told = format is Format.TEXT or sys.stderr.isatty()

    def on_event(event: Event) -> None:
        for line in shown.event_lines(event) if told else ():
            out.print(line, soft_wrap=True)

    def consent(asked: ConsentAsked) -> bool:
        return console.agreed(shown.question(asked) + ("" if yes else outlook(asked)), yes)

    again = command("run", "", playbook, host, *next_command.given("var", "yes", *next_command.CONNECTION))
    progress = Progress(loaded, host, variables, again=again)
    earlier = progress.read() if resume else ()
    opened = open_actions(reach, known.select(host)[0])
    with progress.held(), opened as (actions, outlook):
        result = runner.run(
            loaded,
            host,
            variables,
            actions,
            consent=consent,
            on_event=on_event,
            earlier=earlier,
            keep=progress.write,
        )
    if told:
        out.print(shown.result_line(result), soft_wrap=True)
    if result.status == "refused" and not sys.stdin.isatty():
        print("nobody can be asked here; --yes agrees beforehand", file=sys.stderr)
    if format is Format.JSON:
        console.show(result, format)
    write_result(result, report)
    raise typer.Exit(result.exit_code)
