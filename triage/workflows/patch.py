"""What `triage patch` and its subcommands give, and what they refuse to call done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.common.commands import Next, command
from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.patching.model import PlanState
from triage.patching.trees import find_python, find_root

if TYPE_CHECKING:
    from triage.evidence.model import Deployment
    from triage.hosts.connection import Connection
    from triage.patching.change_status import Outlook
    from triage.patching.ledger import PatchChange
    from triage.patching.rebase import Rebased
    from triage.patching.target import Plans


@dataclass(frozen=True)
class PatchResult:
    """Patches with their states on a host, and the changes that were made there, or taken back."""

    host: str
    plans: Plans = ()
    changes: tuple[PatchChange, ...] = ()
    package_root: str = ""


@dataclass(frozen=True)
class PatchStatus:
    """The changes on record on a host, each with what has become of it, and the command that comes next."""

    host: str
    outlooks: tuple[tuple[Outlook, str], ...] = ()


@dataclass(frozen=True)
class RebaseResult:
    """The changes on record against what is installed now, and those that were made again."""

    host: str
    found: tuple[Rebased, ...]
    changes: tuple[PatchChange, ...] = ()


def in_directory(directory: str, place: Path, ids: Sequence[str]) -> tuple[str, str]:
    """The engine's package in a virtual environment, site-packages, wheel or checkout, and its interpreter.

    `directory` is how the user calls the place. Raises UsageError.
    """
    if not ids:
        happened = "nothing ran there that could be diagnosed, so name a patch with --id"
        raise UsageError("patching", directory, happened, command("scan", directory))
    root, package = find_root(place)
    return str(root / package), find_python(place)


def refuse_what_is_not_fixed(host: str, plans: Plans, changes: Iterable[PatchChange], next: Next) -> None:
    """Nothing that was left undone is called done. Raises RefusedError."""
    if not plans:
        raise RefusedError("applying patches on", host, "no patch is known for what ran there", next)
    done = {change.patch for change in changes}
    left = [
        f"{patch.id} is {plan.state.value}: {plan.reason}"
        for patch, plan in plans
        if patch.id not in done and plan.state not in (PlanState.FIXED_UPSTREAM, PlanState.APPLIED)
    ]
    if left:
        raise RefusedError("applying patches on", host, "; ".join(left), next)


def refuse_conflicts(host: str, found: Iterable[Rebased], next: Next) -> None:
    """Raises RefusedError that names each change that could not be made again."""
    left = [item for item in found if item.verdict == "conflict"]
    if left:
        said = [
            f"{item.change.patch}: {item.plan.reason if item.plan else 'no such patch is known'}"
            for item in left
        ]
        raise RefusedError("rebasing", host, "; ".join(said), next)


def services_of(connection: Connection) -> Sequence[Deployment]:
    """The host's services; none where there are none to be found."""
    try:
        return discover(LiveEvidence(connection))
    except UnreachableError:
        return ()


def facts_of(given: Iterable[str]) -> dict[str, str]:
    """What `--given NAME=VALUE` says. Raises UsageError."""
    facts = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not (name and equals and value):
            raise UsageError("reading", f"--given {item}", "it is not NAME=VALUE", "--given pool_class=NAME")
        facts[name] = value
    return facts
