"""Finds the patches that a diagnosis proposes, on the tree that serves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triage.common.commands import command
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.model import EMPTY
from triage.hosts.connection import Connection
from triage.patching.load import find_patch
from triage.patching.schema import Patch
from triage.patching.target import PatchTarget, on_record, target_at
from triage.patching.transaction import HostTree
from triage.rules.load import load_rules
from triage.verify.service.containers import place_of
from triage.workflows.diagnose import Knowledge, diagnose

if TYPE_CHECKING:
    from triage.workflows.diagnose import DiagnosedIncident

TO_AN_IMAGE = ("--export", "dockerfile")


def find_target(
    connection: Connection,
    known: Sequence[Patch],
    ids: Sequence[str] = (),
    unit: str = "",
    package_root: str = "",
    python: str = "",
    ledger: str = "",
    every: bool = False,
    rules: Iterable[Path] = (),
    log_needed: bool = True,
    changing: bool = True,
    compiler: str = "",
) -> PatchTarget:
    """The tree that serves on a host, and the patches that are asked for or proposed for it.

    Proposed are those for what failed last; with `every`, those for each incident of the log. Where
    there are none, those that were applied to the tree before. With `package_root` no service is
    looked for. `rules` are directories of further rules. Without `log_needed`, or where `ids` say what is
    wanted, a log that cannot be read proposes nothing, and is no error. To be `changing` anything is refused
    in a container. `compiler` is as for HostTree. Raises TriageError.
    """
    wanted = tuple(find_patch(id, known) for id in ids)
    if package_root:
        return target_at(connection, package_root, known, wanted, python, ledger, compiler)

    evidence, knowledge = LiveEvidence(connection), Knowledge(load_rules(rules), tuple(known))
    try:
        report = diagnose(evidence, knowledge, unit)
        deployment, incidents = report.deployment, report.incidents
    except UnreachableError:
        if log_needed and not wanted:
            raise
        deployment, incidents = discover(evidence, unit)[0], ()
    if deployment.container and changing:
        each_start = ", in Kubernetes at each start" if deployment.manager in ("crictl", "kubectl") else ""
        raise RefusedError(
            "patching",
            f"container {deployment.name} on {connection.name}",
            f"a change in a container is gone with it{each_start}; its image has to have the change",
            command("patch", connection.name, "--unit", deployment.name, *TO_AN_IMAGE),
        )
    if not deployment.package_root:
        raise UnreachableError(
            "looking for the source of",
            f"{deployment.name} on {connection.name}",
            "the directory of the engine's package is not known",
            command("patch", connection.name, "--package-root", ".../site-packages/PACKAGE", "--id", "PATCH"),
        )
    root = deployment.package_root.rpartition("/")[0]
    place = place_of(connection, deployment)
    tree = HostTree(place, [root], python or deployment.python, ledger)
    wanted = wanted or _proposed(incidents if every else incidents[-1:], known) or on_record(tree, known)
    known_of = _context(incidents)
    return PatchTarget(
        tree, deployment.package_root, wanted, known_of, deployment.unit, container=deployment.container
    )


def _proposed(incidents: Iterable[DiagnosedIncident], known: Sequence[Patch]) -> tuple[Patch, ...]:
    """The patches among the remedies, those for the last incident first, best first."""
    ids = [
        remedy.id
        for finding in reversed(tuple(incidents))
        for diagnosis in finding.diagnoses
        if diagnosis.outcome != "refuted"
        for remedy in diagnosis.remedies
        if remedy.kind == "patch"
    ]
    return tuple(find_patch(id, known) for id in dict.fromkeys(ids))


def _context(incidents: Sequence[DiagnosedIncident]) -> Mapping[str, str]:
    """What the log of the last run tells that a patch's preconditions ask for."""
    for finding in incidents[-1:]:
        if "kv_pool" in finding.incident.facts:
            return {"pool_class": finding.incident.facts["kv_pool"]}
    return EMPTY
