"""What the steps of a playbook do on a host: the same calls as the commands of those names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.common.errors import TriageError
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.patching.ledger import choose
from triage.verify.events import Listener, ignore
from triage.verify.layouts.launch_commands import name_of
from triage.verify.load.client import client_of
from triage.verify.load.loads import FORMS, api_key_of, loads_of
from triage.verify.options import Options
from triage.verify.service.deployed import service_of
from triage.verify.service.drain import outlook
from triage.verify.service.waiting import wait_until_settled
from triage.workflows import diagnose
from triage.workflows.bench_unit import BenchListener, bench_unit, layouts_of
from triage.workflows.knowledge import knowledge, known_patches, rule_directories
from triage.workflows.patch import PatchResult
from triage.workflows.verify_unit import VerifiedUnit, verify_unit

if TYPE_CHECKING:
    from triage.hosts.connection import Connection
    from triage.playbook.model import ConsentAsked
    from triage.workflows.bench import Bench

RESTARTING = ("verify", "bench")


@dataclass(frozen=True)
class StepResult:
    """What a step did: `result` is what its command gives, `shown` what a person is shown of it."""

    ok: bool
    result: object
    summary: str
    shown: tuple[object, ...] = ()


@dataclass(frozen=True)
class StepContext:
    """The place where steps run, and who is told of restarts and layouts meanwhile.

    `document` is how a bench is written down as long as it goes on.
    """

    connection: Connection
    document: Callable[[Bench], Mapping[str, Any]]
    listening: Callable[[], AbstractContextManager[Listener]] = lambda: nullcontext(ignore)
    benching: Callable[[], AbstractContextManager[BenchListener]] = lambda: nullcontext(BenchListener())
    on_interrupt: Callable[[str], None] = lambda done: None


Step = Callable[[StepContext, Mapping[str, Any]], StepResult]


def outlook_of(connection: Connection, asked: ConsentAsked) -> str:
    """Return in words the requests that run when a step restarts the service; "" for other steps."""
    if asked.do not in RESTARTING or not asked.arguments.get("restart", True):
        return ""
    try:
        return outlook(connection, discover(LiveEvidence(connection), asked.arguments.get("unit", ""))[0])
    except TriageError:  # the step itself will say it
        return ""


def _wait(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    connection = context.connection
    deployment = discover(LiveEvidence(connection), arguments.get("unit", ""))[0]
    client = client_of(connection, deployment, key=api_key_of(arguments.get("api_key_env", "")))
    timeout = arguments.get("timeout", Options.timeout)
    start = wait_until_settled(service_of(connection, deployment), client, timeout)
    data = {"ready": start.ready, "died": start.died, "reason": start.failure}
    if start.ready:
        return StepResult(True, data, "it serves")
    summary = start.failure if start.died else f"it neither serves nor has died: {start.failure}"
    return StepResult(start.died, data, summary)


def _diagnose(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    report = diagnose.diagnose(LiveEvidence(context.connection), knowledge(), arguments.get("unit", ""))
    found = report.incidents[-1].verdict if report.incidents else None
    summary = f"{found.certainty}: {found.category}" if found else "no incident"
    return StepResult(True, report, summary, (report,))


def _patch(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    from triage.patching.target import apply_all, survey
    from triage.workflows.patch_target import find_target

    host, applies = context.connection.name, arguments.get("apply", True)
    unit, rules = arguments.get("unit", ""), rule_directories()
    target = find_target(context.connection, known_patches(), [arguments["id"]], unit, rules=rules)
    plans = survey(target, settle=applies)
    shown = (PatchResult(host, plans),)
    if not applies:
        result = PatchResult(host, plans, (), target.package_root)
        return StepResult(True, result, plans[0][1].state.value, shown)
    # The playbook has asked for consent before this step.
    changes = apply_all(target, plans)
    plans = survey(target)
    result = PatchResult(host, plans, tuple(changes), target.package_root)
    return StepResult(bool(changes), result, f"{arguments['id']}: {plans[0][1].state.value}", shown)


def _verify(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    unit, options = arguments.get("unit", ""), options_of(arguments)
    with context.listening() as on_event:
        found = verify_unit(context.connection, unit, options, knowledge, on_event, context.on_interrupt)
    result = found.verification
    shown = (VerifiedUnit(result), *filter(None, (found.diagnosis,)))
    return StepResult(result.verdict != "failed", found, f"{result.verdict}: {result.reason}", shown)


def _bench(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    layouts = layouts_of(arguments["layouts"])
    deployment = discover(LiveEvidence(context.connection), arguments.get("unit", ""))[0]
    options = options_of(arguments)
    with context.benching() as told:
        result = bench_unit(
            context.connection, deployment, layouts, options, knowledge(), context.document, told
        )
    summary = f"recommended: {name_of(result.best) if result.best else 'none'}; {result.reason}"
    return StepResult(result.best is not None and not result.notes, result, summary, (result,))


def _rollback(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    from triage.patching import transaction
    from triage.patching.transaction import HostTree

    tree, host = HostTree(context.connection, ()), context.connection.name
    chosen = choose(transaction.status(tree), arguments["id"], host)
    change = transaction.rollback(tree, chosen.id)
    return StepResult(True, PatchResult(host, (), (change,)), f"{change.id}: {change.state}")


def _capture(context: StepContext, arguments: Mapping[str, Any]) -> StepResult:
    from triage.workflows import capture

    case = capture.capture(
        LiveEvidence(context.connection),
        knowledge(),
        Path(arguments["output"]),
        arguments.get("unit", ""),
        full=arguments.get("full", False),
        replacing=arguments.get("replace", False),
    )
    return StepResult(True, case, f"captured {case.directory}")


def options_of(arguments: Mapping[str, Any]) -> Options:
    """What a step's arguments ask for. Raises UsageError."""
    arguments = {name: value for name, value in arguments.items() if value != ""}
    formed = {name: value for name, value in arguments.items() if name in FORMS}
    numbers = {name: arguments[name] for name in ("requests", "difference") if name in arguments}
    loads = loads_of(formed, "leave one of them out of the step", **numbers)
    known = {field.name for field in fields(Options)} - {*formed, *numbers}
    others = {name: value for name, value in arguments.items() if name in known}
    return replace(loads, **others, api_key=api_key_of(arguments.get("api_key_env", "")))


STEPS: Mapping[str, Step] = {
    "wait": _wait,
    "diagnose": _diagnose,
    "patch": _patch,
    "verify": _verify,
    "bench": _bench,
    "rollback": _rollback,
    "capture": _capture,
}
