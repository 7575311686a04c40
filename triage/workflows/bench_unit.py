"""The layouts of a service of a host measured by one at a time; what was measured outlives a cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from triage.common.errors import RefusedError, TriageError
from triage.evidence.live import LiveEvidence
from triage.verify.events import Listener, ignore
from triage.verify.layouts.bench_progress import BenchProgress
from triage.verify.layouts.launch_commands import parse_layout
from triage.verify.service.drain import outlook
from triage.workflows import diagnose
from triage.workflows.bench import bench

if TYPE_CHECKING:
    from triage.evidence.model import Deployment, Layout
    from triage.hosts.connection import Connection
    from triage.verify.options import Options
    from triage.workflows.bench import Bench
    from triage.workflows.diagnose import Knowledge


@dataclass(frozen=True)
class BenchListener:
    """Who is told of a bench: of events of each start, of each layout before and after it, of notes.

    `on_interrupt` is told at Ctrl-C how the service is left.
    """

    on_event: Listener = ignore
    on_layout: Callable[[Layout], None] = lambda layout: None
    on_measured: Callable[[Bench], None] = lambda so_far: None
    on_note: Callable[[str], None] = lambda note: None
    on_interrupt: Callable[[str], None] = lambda left: None


def layouts_of(names: str) -> list[Layout]:
    """Return the layouts of `tp8,pp8`, each once. Raises UsageError."""
    return list(dict.fromkeys(map(parse_layout, names.split(","))))


def agree_to_restarts(
    connection: Connection,
    deployment: Deployment,
    layouts: Sequence[Layout],
    options: Options,
    yes: bool,
    agreed: Callable[[str, bool], bool],
) -> None:
    """Ask once for all restarts; `agreed` gets the question and `yes`. Raises RefusedError."""
    where, times = f"{deployment.name} on {connection.name}", len(layouts)
    running = "" if yes else outlook(connection, deployment, options.api_key)
    question = f"restart {where} {times + 1} times, {times} with other arguments?{running}"
    if not agreed(question, yes):
        raise RefusedError("restarting", where, "nobody agreed to it", "repeat it with --yes")


def bench_unit(
    connection: Connection,
    deployment: Deployment,
    layouts: Sequence[Layout],
    options: Options,
    known: Knowledge,
    document: Callable[[Bench], Mapping[str, Any]],
    told: BenchListener = BenchListener(),
) -> Bench:
    """What the layouts do here; a start that died is diagnosed.

    What is measured is kept after each layout, as the `document` of it: a lost connection, Ctrl-C and a
    kill leave it there.
    """
    from triage.verify.service.exclusion import alone

    kept = BenchProgress(connection.name, deployment.name)

    def keep(so_far: Bench) -> None:
        told.on_measured(so_far)
        kept.write(document(so_far))

    def cause() -> str:
        return cause_of(connection, deployment, known)

    with alone(connection, deployment) as note:
        if note:
            told.on_note(note)
        try:
            return bench(connection, deployment, layouts, options, told.on_event, told.on_layout, keep, cause)
        except KeyboardInterrupt:
            told.on_interrupt(f"the command of {deployment.name} is as it was{kept}")
            raise
        except TriageError as error:
            error.happened += str(kept)
            raise


def cause_of(connection: Connection, deployment: Deployment, known: Knowledge) -> str:
    """What a diagnosis says of the start that died, in one line; "" where the log holds no incident."""
    try:
        report = diagnose.diagnose(LiveEvidence(connection), known, deployment.unit)
    except TriageError as error:
        return f"not diagnosed: {error}"
    if not report.incidents:
        return ""
    found = report.incidents[-1]
    titles = [item.title for item in found.diagnoses if item.outcome != "refuted"]
    if titles:
        return f"{found.verdict.certainty}: {titles[0]}"
    fault = found.incident.initiator
    first = "".join(fault.message.splitlines()[:1]) if fault else ""
    return f"no rule explains {fault.type}: {first}" if fault else "its log leaves open what came first"
