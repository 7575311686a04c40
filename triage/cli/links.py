"""`triage links`: what the links between the ranks of a host cost, and which layout that favours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

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
from triage.common.commands import command
from triage.common.errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from triage.evidence.live import LiveEvidence
    from triage.evidence.model import Deployment

DEFAULT_HIDDEN = 7168  # of the models that are spread over a host's GPUs; used where config.json is not there
RUNNING = ("active", "activating", "running", "reloading")


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
    from triage.evidence.catalogue.gpus import GpuTopology
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.report import json
    from triage.report import links as report
    from triage.verify.layouts.links import ModelShape, environment_of, probe, shape_of
    from triage.verify.service.containers import place_of

    reached = reach.host(host)
    unit = unit or reached.settings.unit
    with reach.connection(reached) as connection:
        evidence = LiveEvidence(connection)
        deployment = discover(evidence, unit)[0]
        if deployment.state in RUNNING and not while_serving:
            raise RefusedError(
                "measuring beside",
                f"{deployment.name} on {host}",
                "it serves, which would slow both down",
                "repeat it with --while-serving, or when it does not run",
            )
        if not deployment.python:
            raise UnreachableError(
                "measuring on",
                host,
                f"the interpreter of {deployment.name} is not known",
                command("diagnose", host),
            )
        ranks = world or _ranks(evidence, deployment)
        shape = shape_of(_config(evidence, deployment))
        with console.working(f"timing the links between {ranks} ranks"):
            found = probe(
                place_of(connection, deployment, deployment.python),
                deployment.python,
                ranks,
                (shape or ModelShape(DEFAULT_HIDDEN, 0, 0)).message,
                environment_of(deployment),
                user=deployment.user,
            )
        topology = evidence.ask(GpuTopology()).value if found.backend == "nccl" else None
    told = report.LinksResult(found, shape, _rates(host, deployment.name), topology)
    if format is Format.JSON:
        print(json.dumps(report.document(told)))
        return
    screen = console.stdout()
    for line in report.lines(told):
        screen.print(line, soft_wrap=True)


def _ranks(evidence: LiveEvidence, deployment: Deployment) -> int:
    from triage.evidence.catalogue import GpuInventory
    from triage.verify.layouts.links import MAX_WORLD

    gpus = evidence.ask(GpuInventory()).value
    layout = deployment.layout
    return min(MAX_WORLD, max(2, len(gpus.gpus) if gpus else layout.tp * layout.pp))


def _config(evidence: LiveEvidence, deployment: Deployment) -> Mapping[str, Any]:
    """The model's config.json, empty where it is not known."""
    from triage.evidence.model import Unanswered
    from triage.rules.checkpoint import checkpoint_of

    revision = deployment.arguments.get("revision", "")
    try:
        return checkpoint_of(evidence, deployment, deployment.model, revision).config()
    except Unanswered:
        return {}


def _rates(host: str, deployment: str) -> dict[str, float]:
    """The decode rates that verify and bench measured, by layout; the latest of each."""
    from triage.engines import ENGINES
    from triage.evidence.discovery.command_line import layout_of
    from triage.report.history import figures
    from triage.verify.history import History
    from triage.verify.layouts.bench_progress import BenchProgress
    from triage.verify.layouts.layouts import name_of

    found = BenchProgress(host, deployment).rates()
    for result in History().read(host, deployment):
        rate = figures(result)["decode_rate"] if result.metrics else None
        if rate is not None and result.engine in ENGINES:
            found[name_of(layout_of(result.engine, result.arguments))] = rate
    return found
