"""Sources of log lines -> incidents: runs told apart, faults gathered, roles given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from triage.engines import ENGINES
from triage.logs import ranks, roles
from triage.logs.faults.fingerprint import fingerprint
from triage.logs.faults.frames import engine_package
from triage.logs.faults.weight import Weighed, Weight
from triage.logs.health import health_of
from triage.logs.model import Fault, Incident, LogReading, LogSource, Phase
from triage.logs.run import FoundFault, LogRun
from triage.logs.scan import NUMBER_BITS, LogScan
from triage.logs.settle import settle

NEAR = timedelta(seconds=120)
"""How far from a run's lines a kernel line may be and still concern it."""

OF_PROCESSES = ("oom-kill", "segfault", "trap", "hung-task")
PROGRAMS = (
    *("python", "ray::", "pt_", "cuda", "text-generation"),
    *(name for engine in ENGINES.values() for name in engine.processes.kernel_names),
)


def read_incidents(sources: Sequence[LogSource]) -> tuple[Incident, ...]:
    """The incidents that these sources tell of, see `told_by`."""
    return told_by(sources).incidents


def told_by(sources: Sequence[LogSource]) -> LogReading:
    """What these sources tell; identical incidents are folded into one and counted.

    Sources are parts of one deployment's evidence: its journal, the kernel's log, another file. The
    kernel's lines are joined to the run that they concern. A log of healthy runs has no incidents.
    """
    runs: list[LogRun] = []
    kernel: list[FoundFault] = []
    lost: Counter[str] = Counter()
    scans = [LogScan(source, number) for number, source in enumerate(sources)]
    for scan in scans:
        scan.read()
        runs = _together(runs, scan.runs[-scan.source.last_runs :])
        kernel += scan.kernel
        lost.update(scan.lost)
    runs = _of_engines(runs)
    _join_kernel(runs, kernel, any(scan.active for scan in scans))
    incidents = [incident for run in runs if (incident := _incident(run)) is not None]
    health = dict.fromkeys(said for scan in scans if scan.last for said in health_of(scan.last))
    return LogReading(tuple(_numbered(incident, scans) for incident in _fold(incidents)), lost, tuple(health))


def was_stopped(sources: Sequence[LogSource]) -> bool:
    """Whether the last run of a source was asked to stop."""
    scans = [LogScan(source, number) for number, source in enumerate(sources) if not source.missing]
    for scan in scans:
        scan.read()
    return any(scan.stopped for scan in scans)


def _together(runs: list[LogRun], more: list[LogRun]) -> list[LogRun]:
    """Join the runs of another source to those at the same time: two nodes, or a journal and a file."""
    alone = len(runs) == 1 and len(more) == 1
    apart = []
    for run in more:
        same = next((each for each in runs if _overlap(each, run, alone)), None)
        if same is None:
            apart.append(run)
        else:
            same.join(run)
    return [*runs, *apart]


def _overlap(one: LogRun, other: LogRun, alone: bool) -> bool:
    if one.started is None or one.ended is None or other.started is None or other.ended is None:
        return alone
    if len({time.tzinfo is None for time in (one.started, one.ended, other.started, other.ended)}) > 1:
        return alone
    return one.started <= other.ended and other.started <= one.ended


def _of_engines(runs: list[LogRun]) -> list[LogRun]:
    """Return the runs without those of other services, if some run is known to be an engine's."""
    engines = [run for run in runs if _is_engine(run)]
    if not engines:
        return runs
    units = {run.unit for run in engines if run.unit}
    return [run for run in runs if run in engines or run.unit in units or not (run.unit or run.invocation)]


def _is_engine(run: LogRun) -> bool:
    return bool(run.facts or run.ranks or run.phase) or any(
        engine_package(frame) for found in run.found.values() for frame in found.fault.frames[-50:]
    )


def _join_kernel(runs: list[LogRun], kernel: list[FoundFault], active: bool) -> None:
    """Give each kernel fault to the run that it concerns; without any run they make one of their own."""
    if not runs and kernel:
        run = LogRun(source=kernel[0].fault.position.source, active=active)
        times = [found.fault.time for found in kernel if found.fault.time is not None]
        run.started, run.ended = (times[0], times[-1]) if times else (None, None)
        for found in kernel:
            run.add(found, found.key)
        runs.append(run)
        return
    for found in kernel:
        for run in runs:
            concern = _concern(run, found, len(runs) == 1)
            if concern is not None:
                run.add(replace(found, weighed=concern), found.key)
                break


def _concern(run: LogRun, found: FoundFault, only: bool) -> Weighed | None:
    """The weight of a kernel fault for a run; None when it does not concern it."""
    fault = found.fault
    member = fault.pid is not None and fault.pid in run.pids
    near = _within(run, fault.time)
    if near is False:
        return None
    if fault.pid is not None and fault.type in OF_PROCESSES and not (member or _is_ours(fault.message)):
        return None
    if near or (member and only):
        return found.weighed
    return (
        Weighed(Weight.ERROR, "the kernel's clock is not the service's: when it happened is not known")
        if only
        else None
    )


def _is_ours(message: str) -> bool:
    """Whether a kernel line names a program that inference servers are made of."""
    marks = (f"{mark}{name}" for name in PROGRAMS for mark in ("(", "task=", "task ", ": "))
    return message.startswith(PROGRAMS) or any(mark in message for mark in marks)


def _within(run: LogRun, time: datetime | None) -> bool | None:
    """Whether a time is in a run; None when the clocks cannot be compared."""
    if time is None or run.started is None or run.ended is None:
        return None
    if (time.tzinfo is None) != (run.started.tzinfo is None):
        return None
    try:
        return run.started - NEAR <= time <= run.ended + NEAR
    except OverflowError:
        return None


def _incident(run: LogRun) -> Incident | None:
    settle(run)
    if not roles.is_incident(run):
        return None
    verdict = roles.assign(run)
    facts = dict(run.facts)
    if "engine" not in facts:
        engines = (engine_package(frame) for fault in verdict.faults for frame in fault.frames[-50:])
        engine = next(filter(None, engines), "")
        if engine:
            facts["engine"] = engine
    candidates = tuple(found.fault for found in verdict.candidates)
    initiator = verdict.initiator
    mark = fingerprint(facts.get("engine", ""), initiator.fault if initiator else None, candidates)
    known = ranks.known(run)
    spoke = {who for found in run.found.values() if found.weight < Weight.TEARDOWN for who in found.who}
    # names of one length can only be equal
    some = [who for who in spoke if known and len(who) != len(known[0])][:256]
    silent = [
        who for who in known if who not in spoke and not any(who <= other or other <= who for other in some)
    ]
    return Incident(
        id=f"{mark[:8]}-{run.started:%m%d%H%M%S}" if run.started else mark[:8],
        fingerprint=mark,
        started=run.started,
        ended=run.again or run.ended,
        count=run.times,
        initiator=initiator.fault if initiator else None,
        faults=verdict.faults,
        candidates=candidates,
        ranks=frozenset(ranks.name_of(who) for who in known),
        silent_ranks=tuple(ranks.name_of(who) for who in silent),
        facts=MappingProxyType(facts),
        phase=initiator.phase if initiator else run.phase,
        phases=tuple(Phase(name, step.time, ranks.names(step.who)) for name, step in run.steps.items()),
    )


def _fold(incidents: list[Incident]) -> tuple[Incident, ...]:
    folded: dict[str, Incident] = {}
    for incident in sorted(incidents, key=lambda each: _seconds(each.started)):
        known = folded.pop(incident.fingerprint, None)  # the one that came last stays last
        if known is not None:
            ended = max(known.ended, incident.ended, key=_seconds)
            incident = replace(known, count=known.count + incident.count, ended=ended)
        folded[incident.fingerprint] = incident
    return tuple(folded.values())


def _numbered(incident: Incident, scans: Sequence[LogScan]) -> Incident:
    """Return an incident with the real number of each fault's line (see `LogScan.number`)."""

    def numbered(fault: Fault) -> Fault:
        position = fault.position
        scan = scans[position.line >> NUMBER_BITS]
        name, line = scan.source.place(scan.number(position.line))
        return replace(
            fault,
            position=replace(position, source=name, line=line),
            chain=tuple(map(numbered, fault.chain)),
            members=tuple(map(numbered, fault.members)),
        )

    return replace(
        incident,
        initiator=numbered(incident.initiator) if incident.initiator else None,
        faults=tuple(map(numbered, incident.faults)),
        candidates=tuple(map(numbered, incident.candidates)),
    )


def _seconds(time: datetime | None) -> float:
    """Return seconds for ordering, also of times with and without a zone."""
    if time is None:
        return 0.0
    return (
        time.replace(tzinfo=None) - (time.utcoffset() or timedelta(0)) - datetime(1970, 1, 1)
    ).total_seconds()
