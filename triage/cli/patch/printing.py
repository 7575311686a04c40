"""What the commands of `triage patch` print, and the refusals that they share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from triage.cli import console
from triage.common.errors import RefusedError

if TYPE_CHECKING:
    from rich.text import Text

    from triage.patching.ledger import PatchChange
    from triage.patching.model import Plan
    from triage.patching.schema import Patch


def print_lines(lines: Iterable[Text]) -> None:
    screen = console.stdout()
    for line in lines:
        screen.print(line, soft_wrap=True)


def print_plans(plans: Iterable[tuple[Patch, Plan]]) -> None:
    from triage.report.patching import plan_lines

    for patch, plan in plans:
        print_lines(plan_lines(patch, plan))


def print_changes(changes: Iterable[PatchChange]) -> None:
    from triage.report.patching import change_lines

    for change in changes:
        print_lines(change_lines(change))


def print_json(
    host: str, plans: Iterable[tuple[Patch, Plan]], changes: Iterable[PatchChange], package_root: str = ""
) -> None:
    from triage.report import json
    from triage.report.patching import document

    print(json.dumps(document(host, plans, changes, package_root)))


def nobody_agreed(doing: str, to: str) -> RefusedError:
    return RefusedError(doing, to, "nobody agreed to it", "answer yes, or agree beforehand with --yes")
