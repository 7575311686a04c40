"""What the links between the ranks of a host cost, measured with the service's own torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triage.common.commands import command
from triage.common.errors import RefusedError, UnreachableError
from triage.engines import ENGINES
from triage.evidence.catalogue import GpuInventory
from triage.evidence.catalogue.gpus import GpuTopology
from triage.evidence.discovery.command_line import layout_of
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.model import Unanswered
from triage.rules.checkpoint import checkpoint_of
from triage.verify.history import History
from triage.verify.layouts.bench_progress import BenchProgress
from triage.verify.layouts.launch_commands import name_of
from triage.verify.layouts.links import (
    MAX_WORLD,
    Estimate,
    Links,
    ModelShape,
    environment_of,
    estimates,
    probe,
    shape_of,
)
from triage.verify.load.metrics import medians
from triage.verify.service.containers import place_of

if TYPE_CHECKING:
    from triage.evidence.catalogue.gpus import Topology
    from triage.evidence.live import LiveEvidence
    from triage.evidence.model import Deployment
    from triage.hosts.connection import Connection

DEFAULT_HIDDEN = 7168  # of the models that are spread over a host's GPUs; used where config.json is not there
RUNNING = ("active", "activating", "running", "reloading")


@dataclass(frozen=True)
class LinksResult:
    """What `triage links` found. `rates`: the decode rate that was measured of a layout, by its name."""

    links: Links
    shape: ModelShape | None
    rates: Mapping[str, float]
    topology: Topology | None = None

    @property
    def estimates(self) -> tuple[Estimate, ...]:
        return tuple(estimates(self.links, self.shape)) if self.shape else ()


def measure_links(
    connection: Connection,
    unit: str = "",
    world: int = 0,
    while_serving: bool = False,
    working: Callable[[str], AbstractContextManager[None]] = lambda doing: nullcontext(),
) -> LinksResult:
    """Time collectives between `world` ranks; 0: all GPUs, or as many as the service has.

    `working` is entered with what is done while that takes long. Raises RefusedError where the service
    runs, unless `while_serving`.
    """
    host, evidence = connection.name, LiveEvidence(connection)
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
    with working(f"timing the links between {ranks} ranks"):
        found = probe(
            place_of(connection, deployment, deployment.python),
            deployment.python,
            ranks,
            (shape or ModelShape(DEFAULT_HIDDEN, 0, 0)).message,
            environment_of(deployment),
            user=deployment.user,
        )
    topology = evidence.ask(GpuTopology()).value if found.backend == "nccl" else None
    return LinksResult(found, shape, _rates(host, deployment.name), topology)


def _ranks(evidence: LiveEvidence, deployment: Deployment) -> int:
    gpus = evidence.ask(GpuInventory()).value
    layout = deployment.layout
    return min(MAX_WORLD, max(2, len(gpus.gpus) if gpus else layout.tp * layout.pp))


def _config(evidence: LiveEvidence, deployment: Deployment) -> Mapping[str, Any]:
    """The model's config.json, empty where it is not known."""
    revision = deployment.arguments.get("revision", "")
    try:
        return checkpoint_of(evidence, deployment, deployment.model, revision).config()
    except Unanswered:
        return {}


def _rates(host: str, deployment: str) -> dict[str, float]:
    """The decode rates that verify and bench measured, by layout; the latest of each."""
    found = BenchProgress(host, deployment).rates()
    for result in History().read(host, deployment):
        rate = medians(result)["decode_rate"] if result.metrics else None
        if rate is not None and result.engine in ENGINES:
            found[name_of(layout_of(result.engine, result.arguments))] = rate
    return found
