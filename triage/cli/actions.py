"""What the steps of a playbook do: the same calls as the commands of those names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.cli.options import knowledge, rule_directories

if TYPE_CHECKING:
    from rich.text import Text

    from triage.cli.reach import Reach
    from triage.hosts.connection import Connection
    from triage.hosts.inventory.inventory import Host
    from triage.playbook.model import Action, ActionResult, ConsentAsked
    from triage.verify.options import Options

RESTARTING = ("verify", "bench")
Step = Callable[["Connection", Mapping[str, Any]], "ActionResult"]


@contextmanager
def open_actions(
    reach: Reach, host: Host
) -> Iterator[tuple[Mapping[str, Action], Callable[[ConsentAsked], str]]]:
    """The actions over one connection to the host, closed afterwards; and what is to be known before one."""
    with reach.connection(host) as connection:
        yield (
            {name: partial(_on, connection, step) for name, step in _STEPS.items()},
            partial(_outlook, connection),
        )


def _outlook(connection: Connection, asked: ConsentAsked) -> str:
    """Of a step that restarts the service: the requests that run there."""
    from triage.common.errors import TriageError
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.verify.service.drain import outlook

    if asked.do not in RESTARTING or not asked.arguments.get("restart", True):
        return ""
    try:
        return outlook(connection, discover(LiveEvidence(connection), asked.arguments.get("unit", ""))[0])
    except TriageError:  # the step itself will say it
        return ""


def _on(connection: Connection, step: Step, host: str, arguments: Mapping[str, Any]) -> ActionResult:
    return step(connection, arguments)


def _wait(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.cli.loads import api_key_of
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.playbook.model import ActionResult
    from triage.verify.load.client import client_of
    from triage.verify.service.service import service_of
    from triage.verify.service.waiting import wait_until_settled
    from triage.workflows.verify import Options

    deployment = discover(LiveEvidence(connection), arguments.get("unit", ""))[0]
    client = client_of(connection, deployment, key=api_key_of(arguments.get("api_key_env", "")))
    timeout = arguments.get("timeout", Options.timeout)
    start = wait_until_settled(service_of(connection, deployment), client, timeout)
    data = {"ready": start.ready, "died": start.died, "reason": start.failure}
    if start.ready:
        return ActionResult(True, data, "it serves")
    summary = start.failure if start.died else f"it neither serves nor has died: {start.failure}"
    return ActionResult(start.died, data, summary)


def _diagnose(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.evidence.live import LiveEvidence
    from triage.playbook.model import ActionResult
    from triage.report import json, text
    from triage.workflows import diagnose

    unit = arguments.get("unit", "")
    report = diagnose.diagnose(LiveEvidence(connection), knowledge(), unit)
    found = report.incidents[-1].verdict if report.incidents else None
    summary = f"{found.certainty}: {found.category}" if found else "no incident"
    return ActionResult(True, json.diagnosis(report), summary, _plain(text.lines(report)))


def _patch(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.common.config import load_config
    from triage.patching.load import load_patches
    from triage.patching.target import apply_all, survey
    from triage.playbook.model import ActionResult
    from triage.report.patching import document, plan_lines
    from triage.workflows.patch_target import find_target

    known = load_patches(load_config().patches)
    unit, rules = arguments.get("unit", ""), rule_directories()
    target = find_target(connection, known, [arguments["id"]], unit, rules=rules)
    plans = survey(target, settle=arguments.get("apply", True))
    detail = _plain(line for patch, plan in plans for line in plan_lines(patch, plan))
    if not arguments.get("apply", True):
        data = document(connection.name, plans, (), target.package_root)
        return ActionResult(True, data, plans[0][1].state.value, detail)
    # The playbook has asked for consent before this step.
    changes = apply_all(target, plans)
    plans = survey(target)
    data = document(connection.name, plans, changes, target.package_root)
    return ActionResult(bool(changes), data, f"{arguments['id']}: {plans[0][1].state.value}")


def _verify(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.cli.verify import verify_on
    from triage.playbook.model import ActionResult
    from triage.report import json, text, verification

    result, report = verify_on(connection, arguments.get("unit", ""), _options(arguments))
    shown = [*verification.lines(result), *(text.lines(report) if report else ())]
    data = json.verification(result, report)
    return ActionResult(result.verdict != "failed", data, f"{result.verdict}: {result.reason}", _plain(shown))


def _bench(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.cli.bench import bench_on, layouts_of
    from triage.evidence.discovery.deployments import discover
    from triage.evidence.live import LiveEvidence
    from triage.playbook.model import ActionResult
    from triage.report import bench as report

    layouts = layouts_of(arguments["layouts"])
    deployment = discover(LiveEvidence(connection), arguments.get("unit", ""))[0]
    result = bench_on(connection, deployment, layouts, _options(arguments), knowledge())
    data = report.document(result)
    summary = f"recommended: {data['best'] or 'none'}; {result.reason}"
    ok = result.best is not None and not result.notes
    return ActionResult(ok, data, summary, _plain(report.lines(result)))


def _options(arguments: Mapping[str, Any]) -> Options:
    """What a step's arguments ask for. Raises UsageError."""
    from triage.cli.loads import api_key_of
    from triage.verify.load.loads import FORMS, loads_of
    from triage.verify.options import Options

    arguments = {name: value for name, value in arguments.items() if value != ""}
    formed = {name: value for name, value in arguments.items() if name in FORMS}
    numbers = {name: arguments[name] for name in ("requests", "difference") if name in arguments}
    loads = loads_of(formed, "leave one of them out of the step", **numbers)
    known = {field.name for field in fields(Options)} - {*formed, *numbers}
    others = {name: value for name, value in arguments.items() if name in known}
    return replace(loads, **others, api_key=api_key_of(arguments.get("api_key_env", "")))


def _rollback(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.patching import transaction
    from triage.patching.ledger import choose
    from triage.patching.transaction import HostTree
    from triage.playbook.model import ActionResult
    from triage.report.patching import document

    tree = HostTree(connection, ())
    chosen = choose(transaction.status(tree), arguments["id"], connection.name)
    change = transaction.rollback(tree, chosen.id)
    return ActionResult(True, document(connection.name, (), (change,)), f"{change.id}: {change.state}")


def _capture(connection: Connection, arguments: Mapping[str, Any]) -> ActionResult:
    from triage.evidence.live import LiveEvidence
    from triage.playbook.model import ActionResult
    from triage.report import json
    from triage.workflows import capture

    case = capture.capture(
        LiveEvidence(connection),
        knowledge(),
        Path(arguments["output"]),
        arguments.get("unit", ""),
        full=arguments.get("full", False),
        replacing=arguments.get("replace", False),
    )
    return ActionResult(True, json.capture(case), f"captured {case.directory}")


def _plain(lines: Iterable[Text]) -> str:
    return "\n".join(line.plain for line in lines)


_STEPS: Mapping[str, Step] = {
    "wait": _wait,
    "diagnose": _diagnose,
    "patch": _patch,
    "verify": _verify,
    "bench": _bench,
    "rollback": _rollback,
    "capture": _capture,
}
