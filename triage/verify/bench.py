"""Several parallel layouts of one deployment, each started, proven and measured; then it is as it was."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import median

from triage.errors import RefusedError, TriageError
from triage.evidence.live import LiveEvidence
from triage.evidence.model import Deployment, Layout
from triage.evidence.queries.systemd import UnitCommand
from triage.hosts.connection import Connection
from triage.verify.compare import FLOOR
from triage.verify.dropin import DropIn
from triage.verify.events import Listener, ignore
from triage.verify.layouts import name_of, with_layout
from triage.verify.model import Metrics, Verification
from triage.verify.run import Options, verify
from triage.verify.service import SystemdService

EXERCISES = 8  # requests between a start and its loads, at most
SLACK = 300.0  # seconds beside all of these after which the host takes the drop-in away by itself


@dataclass(frozen=True)
class Measured:
    """One layout. `cause` is what a diagnosis said of a start that died, "" otherwise."""

    layout: Layout
    verification: Verification
    cause: str = ""


@dataclass(frozen=True)
class Bench:
    """`best` is None where nothing can be recommended; `reason` says why it is, or is not.

    `notes` say where the deployment is not as it was yet.
    """

    deployment: str
    before: Layout
    measured: tuple[Measured, ...]
    best: Layout | None
    reason: str
    notes: tuple[str, ...] = ()


Explain = Callable[[], str]


def bench(
    connection: Connection,
    deployment: Deployment,
    layouts: Sequence[Layout],
    options: Options,
    on_event: Listener = ignore,
    on_layout: Callable[[Layout], None] = lambda layout: None,
    explain: Explain = lambda: "",
) -> Bench:
    """Measure each layout, then restore the deployment, whatever happened.

    `explain` is asked for the cause when a start died. Raises RefusedError, before anything is changed,
    where the deployment is no systemd unit, its command hides the arguments, or another bench is at work;
    TriageError when the host is lost, and then the host restores it by itself.
    """
    if not deployment.unit or not deployment.engine or deployment.manager == "systemd-user":
        raise RefusedError(
            "change the layout of",
            f"{deployment.name} on {connection.name}",
            "this is done for SGLang and vLLM as units of the system's own systemd",
            "change its arguments, and run triage verify for each",
        )
    command = LiveEvidence(connection).ask(UnitCommand(deployment.unit)).require()
    commands = {layout: with_layout(command.argv, deployment.engine, layout) for layout in layouts}
    options = replace(options, restart=True, store=False)
    limit = options.timeout + EXERCISES * options.request_timeout + options.load_timeout + SLACK
    measured = []
    dropin = _dropin(connection, deployment.unit)
    with _restoring(dropin, limit) as notes:
        for layout, argv in commands.items():
            on_layout(layout)
            dropin.write(command.program, argv, limit)
            result = verify(connection, deployment, options, on_event)
            cause = explain() if result.start.died else ""
            measured.append(Measured(layout, replace(result, arguments=_sizes(layout)), cause))
    best, reason = recommended(measured)
    return Bench(deployment.name, deployment.layout, tuple(measured), best, reason, tuple(notes))


def _dropin(connection: Connection, unit: str) -> DropIn:
    state = SystemdService(connection, unit).state()
    dropin = DropIn(connection, unit, "stop" if state.dead and not state.restarting else "restart")
    dropin.require_none()
    return dropin


@contextmanager
def _restoring(dropin: DropIn, limit: float) -> Iterator[list[str]]:
    """Remove the drop-in in the end. What is yielded then has what is left to say: that it could not be."""
    notes: list[str] = []
    later = f"the host has it as it was by itself, within {limit / 60:.0f} minutes"
    try:
        yield notes
    except BaseException as error:
        try:
            _remove(dropin)
        except TriageError as trouble:
            lasting = error if isinstance(error, TriageError) else trouble
            lasting.happened += f"; {later}"
            raise lasting from None
        raise
    try:
        _remove(dropin)
    except TriageError as trouble:
        notes.append(f"{trouble}; {later}")


def _remove(dropin: DropIn) -> None:
    """Without being interrupted: half of it would leave a service that nobody restarts."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        dropin.remove()
    finally:
        signal.signal(signal.SIGINT, before)


def recommended(measured: Sequence[Measured]) -> tuple[Layout | None, str]:
    """The layout that answers one user fastest; among those that do alike, the one that serves most.

    A difference within what repeats differ by is none.
    """
    good = [one for one in measured if _is_measured(one.verification)]
    if not good:
        return None, "no layout became ready and answered every request"
    if len(good) < 2:
        return good[0].layout, f"only {name_of(good[0].layout)} became ready and answered every request"
    rates = {one.layout: _values(one.verification, low=True) for one in good}
    most = {one.layout: _values(one.verification, low=False) for one in good}
    fastest = max(rates, key=lambda layout: median(rates[layout]))
    alike = [layout for layout in rates if not _clearly_less(rates[layout], rates[fastest])]
    best = max(alike, key=lambda layout: median(most[layout]))
    told = ", ".join(
        f"{name_of(one.layout)} {median(rates[one.layout]):.1f}"
        for one in sorted(good, key=lambda one: -median(rates[one.layout]))
    )
    reason = f"tokens/s of one stream: {told}"
    if len(alike) > 1:
        names = ", ".join(map(name_of, alike))
        served = ", ".join(f"{name_of(layout)} {median(most[layout]):.1f}" for layout in alike)
        reason += f"; {names} do not differ by more than repeats do; tokens/s of all streams: {served}"
    return best, reason


def _is_measured(result: Verification) -> bool:
    return result.verdict != "failed" and all(_values(result, low) for low in (True, False))


def _values(result: Verification, low: bool) -> list[float]:
    """The decode rate of single streams, or the throughput of the most streams, of each repeat."""
    levels = sorted({one.concurrency for one in result.metrics})
    if not levels:
        return []
    at = [one for one in result.metrics if one.concurrency == (levels[0] if low else levels[-1])]
    return [value for one in at if (value := _figure(one, low))]


def _figure(metrics: Metrics, low: bool) -> float | None:
    return metrics.decode_rate if low else metrics.output_throughput


def _clearly_less(values: Sequence[float], than: Sequence[float]) -> bool:
    """By more than either side's repeats differ, and by more than is ever claimed."""
    spread = max(FLOOR, *((max(side) - min(side)) / median(side) for side in (values, than)))
    return median(values) < median(than) * (1 - spread)


def _sizes(layout: Layout) -> dict[str, str]:
    return {kind: str(getattr(layout, kind)) for kind in ("tp", "pp", "dp", "ep")}
