"""Several parallel layouts of one deployment, each started, proven and measured; then it is as it was."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from triage.common.errors import RefusedError, TriageError, UnreachableError
from triage.engines import titles
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.model import Deployment, Layout
from triage.hosts.connection import Connection
from triage.verify.compare import BURSTS
from triage.verify.events import Event, Listener, ignore
from triage.verify.layouts.launch_commands import name_of, with_layout
from triage.verify.load.client import client_of
from triage.verify.load.measure import require_possible
from triage.verify.load.metrics import levels_of
from triage.verify.load.spread import DIFFERENCE, uncertainty
from triage.verify.model import Metrics, Verification
from triage.verify.service.drain import drain
from triage.verify.service.dropin import DropIn, command_of
from triage.verify.service.systemd import SystemdService
from triage.workflows.verify import Options, verify

EXERCISES = 8  # requests between a start and its loads, at most
POLITE = (signal.SIGTERM, signal.SIGHUP)
SLACK = 300.0  # seconds beside the longest step after which the host takes the drop-in away by itself
RENEWAL = 20.0  # seconds between two renewals of that time; systemd allows five in ten seconds


@dataclass(frozen=True)
class MeasuredLayout:
    """One layout. `cause` is what a diagnosis said of a start that died, "" otherwise."""

    layout: Layout
    verification: Verification
    cause: str = ""


@dataclass(frozen=True)
class Bench:
    """`best` is None where nothing can be recommended; `reason` says why it is, or is not.

    `notes` say where the deployment is not as it was yet. `left` were asked for and not measured.
    """

    deployment: str
    before: Layout
    measured: tuple[MeasuredLayout, ...]
    best: Layout | None
    reason: str
    notes: tuple[str, ...] = ()
    left: tuple[Layout, ...] = ()


Explain = Callable[[], str]


def bench(
    connection: Connection,
    deployment: Deployment,
    layouts: Sequence[Layout],
    options: Options,
    on_event: Listener = ignore,
    on_layout: Callable[[Layout], None] = lambda layout: None,
    on_measured: Callable[[Bench], None] = lambda so_far: None,
    explain: Explain = lambda: "",
) -> Bench:
    """Measure each layout, then restore the deployment, whatever happened.

    `on_measured` gets what is known after each layout: who is cut has that. `explain` is asked for the
    cause when a start died. Raises RefusedError, before anything is changed, where the deployment is no
    systemd unit, its command cannot be changed without changing what it means, or another bench is at
    work; TriageError when the host is lost, and then the host restores it by itself.
    """
    require_possible(options)
    _require_fit(connection, deployment)
    command = command_of(connection, deployment.unit)
    commands = {
        layout: replace(command, argv=with_layout(command.argv, deployment.engine, layout))
        for layout in layouts
    }
    options = replace(options, restart=True, store=False)
    exercise = EXERCISES * options.request_timeout
    limit = max(options.timeout, exercise, options.load_timeout) + SLACK
    measured: list[MeasuredLayout] = []

    def so_far() -> Bench:
        left = tuple(commands)[len(measured) :]
        best, reason = recommended(measured, options.difference)
        return Bench(deployment.name, deployment.layout, tuple(measured), best, reason, left=left)

    dropin = _dropin(connection, deployment.unit)
    renewing = _renewing(dropin, on_event)
    with _ended_as_by_ctrl_c(), _restoring(dropin, limit) as notes:
        for layout, changed in commands.items():
            on_layout(layout)
            dropin.write(changed, limit)
            result = _by_itself(verify(connection, deployment, options, renewing), layout)
            cause = explain() if result.start.died else ""
            measured.append(MeasuredLayout(layout, _as_asked(connection, deployment, layout, result), cause))
            on_measured(so_far())
        drain(client_of(connection, deployment, key=options.api_key), deployment, options.drain, renewing)
    return replace(so_far(), notes=tuple(notes))


def _require_fit(connection: Connection, deployment: Deployment) -> None:
    if not deployment.unit or not deployment.engine or deployment.manager == "systemd-user":
        happened = f"this is done for {titles('and')} as units of the system's own systemd"
    elif deployment.arguments.get("nnodes", "1") not in ("", "1"):
        happened = "it is one of several nodes, which have to change together"
    else:
        return
    raise RefusedError(
        "change the layout of",
        f"{deployment.name} on {connection.name}",
        happened,
        "change its arguments, and run triage verify for each",
    )


def _by_itself(result: Verification, layout: Layout) -> Verification:
    """Return a result without its comparison to the last verification, which may have had another layout."""
    result = replace(result, arguments=_sizes(layout), changes=(), compared_with="")
    if result.verdict == "failed":
        return result
    return replace(result, verdict="inconclusive", reason="to be compared with the other layouts")


def _as_asked(
    connection: Connection, deployment: Deployment, layout: Layout, result: Verification
) -> Verification:
    """The result, failed where another layout was measured: a variable or a script may have the last word."""
    if not result.start.ready or result.start.died:
        return result
    found = discover(LiveEvidence(connection), deployment.unit)[0]
    if found.layout == layout or found.state != "active" or not found.arguments:
        return result
    reason = f"it runs {name_of(found.layout)}: a variable or a script has other sizes than its arguments"
    return replace(result, verdict="failed", reason=reason)


def _dropin(connection: Connection, unit: str) -> DropIn:
    state = SystemdService(connection, unit).state()
    dropin = DropIn(connection, unit, "stop" if state.dead and not state.restarting else "restart")
    dropin.require_none()
    return dropin


def _renewing(dropin: DropIn, on_event: Listener) -> Listener:
    """Return a listener; while it is told something, the host does not remove the drop-in."""
    renewed = time.monotonic()

    def told(event: Event) -> None:
        nonlocal renewed
        if time.monotonic() - renewed >= RENEWAL:
            renewed = time.monotonic()
            with suppress(UnreachableError):  # a line that is cut for a moment: the next time
                dropin.renew()
        on_event(event)

    return told


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
    """Remove it without being interrupted: half of it would leave a service that nobody restarts."""
    with _handled(signal.SIG_IGN, signal.SIGINT, *POLITE):
        dropin.remove()


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """End also when the terminal is closed, or by a plain kill, unless these are ignored, as under nohup."""
    heeded = [each for each in POLITE if signal.getsignal(each) is not signal.SIG_IGN]
    with _handled(signal.default_int_handler, *heeded):
        yield


@contextmanager
def _handled(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def recommended(
    measured: Sequence[MeasuredLayout], difference: float = DIFFERENCE
) -> tuple[Layout | None, str]:
    """The layout that answers one user fastest; among those that do alike, the one that serves most.

    At a rate all that keep it serve the same, and the one that answers soonest does best. A relative
    `difference` or less is none, nor is one that repeats leave open. Where tokens come in bursts, the rate
    between the first and the last says nothing, and that of whole answers counts.
    """
    good = [one for one in measured if _is_measured(one.verification)]
    if not good:
        return None, "no layout became ready and answered every request"
    if len(good) < 2:
        return good[0].layout, f"only {name_of(good[0].layout)} became ready and answered every request"
    bursts = [name_of(one.layout) for one in good if _in_bursts(one.verification)]
    rates = {one.layout: _rates(one.verification, whole=bool(bursts)) for one in good}
    fastest = max(rates, key=lambda layout: fmean(rates[layout]))
    alike = [one for one in good if not _clearly_less(rates[one.layout], rates[fastest], difference)]
    reason = f"tokens/s of one stream: {_told(rates, sorted(rates, key=lambda one: -fmean(rates[one])))}"
    if bursts:
        reason += f" (of whole answers: those of {', '.join(bursts)} come in bursts)"
    if len(alike) < 2:
        return fastest, reason
    best, why = _most_able(alike)
    names = ", ".join(name_of(one.layout) for one in alike)
    return best, f"{reason}; {names} do not differ by more than repeats do; {why}"


def _most_able(alike: Sequence[MeasuredLayout]) -> tuple[Layout, str]:
    """The one that does best with the most requests, and the figure of each."""
    rate, _ = levels_of(alike[0].verification.metrics)[-1]
    if rate:
        times = {one.layout: _times(one.verification) for one in alike}
        best = min(times, key=lambda layout: fmean(times[layout]))
        return best, f"ms to a whole answer at {rate:g} requests/s: {_told(times, list(times))}"
    served = {one.layout: _served(one.verification) for one in alike}
    best = max(served, key=lambda layout: fmean(served[layout]))
    return best, f"of all streams: {_told(served, list(served))}"


def _told(values: Mapping[Layout, Sequence[float]], layouts: Sequence[Layout]) -> str:
    return ", ".join(f"{name_of(layout)} {fmean(values[layout]):.1f}" for layout in layouts)


def _is_measured(result: Verification) -> bool:
    return bool(result.verdict != "failed" and _rates(result, whole=True) and _served(result))


def _at(result: Verification, last: bool) -> list[Metrics]:
    """Each repeat of the first level, or of the last."""
    levels = levels_of(result.metrics)
    return [one for one in result.metrics if one.level == levels[-1 if last else 0]]


def _in_bursts(result: Verification) -> bool:
    single = _at(result, last=False)
    return (
        any(one.decode_rate is None for one in single) or fmean(one.near_zero_gaps for one in single) > BURSTS
    )


def _rates(result: Verification, whole: bool) -> list[float]:
    """Tokens/s of single streams, of each repeat: of whole answers, or once the first token is there."""
    values = (one.output_throughput if whole else one.decode_rate for one in _at(result, last=False))
    return [value for value in values if value]


def _served(result: Verification) -> list[float]:
    """Tokens/s of the most streams together, of each repeat."""
    return [one.output_throughput for one in _at(result, last=True) if one.output_throughput]


def _times(result: Verification) -> list[float]:
    """Milliseconds to a whole answer at the highest rate, of each repeat."""
    return [value for one in _at(result, last=True) if (value := one.e2e_ms)]


def _clearly_less(values: Sequence[float], than: Sequence[float], difference: float) -> bool:
    """Return whether one is less by more than repeats leave open, and by more than is claimed."""
    doubt = sum(uncertainty(side) * fmean(side) for side in (values, than))
    return fmean(values) < fmean(than) - max(difference * fmean(than), doubt)


def _sizes(layout: Layout) -> dict[str, str]:
    return {kind: str(getattr(layout, kind)) for kind in ("tp", "pp", "dp", "ep")}
