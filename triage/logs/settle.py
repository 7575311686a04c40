"""What only the whole of a run tells: whose rank a pid or a number is, what a cut traceback belongs to."""

from __future__ import annotations

from dataclasses import replace

from triage.logs.faults.frames import culprit, engine_package
from triage.logs.faults.traceback import CUT
from triage.logs.faults.weight import Weighed, Weight
from triage.logs.model import Fault
from triage.logs.reading.line import NO_RANKS
from triage.logs.run import FoundFault, LogRun


def settle(run: LogRun) -> None:
    """Give every fault its ranks and its culprit, and put cut tracebacks to the whole one they begin like."""
    for found in run.found.values():
        _name(run, found)
    _join_cut(run)
    _explain_missing(run)
    _show_where_it_stood(run)
    for found in run.found.values():
        fault = found.fault
        count = fault.count + found.more
        found.fault = _blamed(replace(fault, ranks=NO_RANKS.union(*found.who), count=count))
        found.more = 0


def _name(run: LogRun, found: FoundFault) -> None:
    fault = found.fault
    pid = run.workers.get(found.worker, fault.pid)
    if pid != fault.pid:
        found.fault = replace(fault, pid=pid)
    if not found.who:
        # a line that tells of another process than its writer
        told = (
            run.pids.get(pid, NO_RANKS)
            if pid is not None and fault.kind in ("signal", "kernel")
            else NO_RANKS
        )
        if not told and found.process is not None:
            told = ranks_of(run, found.process)
        if told:
            found.who.add(told)
    found.who = {by_label(run, ranks) for ranks in found.who}


def by_label(run: LogRun, ranks: frozenset[str]) -> frozenset[str]:
    """`rank3` as the engine calls it, where the layout tells."""
    numbers = [label[4:] for label in ranks if label.startswith("rank")]
    if len(numbers) != 1 or len(ranks) != 1:
        return ranks
    return ranks_of(run, int(numbers[0])) or ranks


def ranks_of(run: LogRun, number: int) -> frozenset[str]:
    """The labels of the process with this number over all, on one node: pipeline stages are outermost."""
    pp, tp = run.size("pp_size"), run.size("tp_size")
    if number >= pp * tp or run.size("nnodes") > 1:
        return NO_RANKS
    stage = frozenset((f"PP{number // tp}",)) if pp > 1 else NO_RANKS
    return stage | {f"TP{number % tp}"} if tp > 1 else stage


def _join_cut(run: LogRun) -> None:
    """A rank that was killed while it printed said the beginning of what another one said whole."""
    whole = [(key, found) for key, found in run.found.items() if found.fault.frames and not found.fault.cut][
        :100
    ]
    for key, found in list(run.found.items()):
        fault = found.fault
        if fault.kind != "exception" or fault.type != CUT or len(fault.frames) < 3:
            continue
        said = fault.frames[:-1]  # the last one may lack its code
        for other_key, other in whole:
            if other.fault.frames[: len(said)] == said:
                del run.found[key]
                run.add(replace(found, fault=replace(other.fault, count=1), more=0), other_key)
                break


def _explain_missing(run: LogRun) -> None:
    """A module that is missed later, and whose import was logged to have failed for another reason."""
    for found in run.found.values():
        if found.key[:1] != ("import",) or "No module named" in found.fault.message:
            continue
        module = str(found.key[1])
        for other in run.found.values():
            if other.weight is Weight.ROOT and other.fault.message == f"No module named '{module}'":
                found.weighed = Weighed(Weight.ROOT, f"it is why {module} is missing later")
                other.weighed = Weighed(Weight.CONSEQUENCE, f"{module} is there, and did not load before")


def _show_where_it_stood(run: LogRun) -> None:
    """A time-out has the frames that its process was in, where a dump of them was logged."""
    for found in run.found.values():
        fault = found.fault
        if found.weight is not Weight.TIMEOUT or fault.frames:
            continue
        for stack in run.stacks:
            pid, ranks = stack.pid or stack.first.writer, by_label(run, stack.first.ranks)
            if (pid is not None and pid == fault.pid) or (ranks and ranks in found.who):
                found.fault = replace(fault, frames=stack.frames)
                break


def _blamed(fault: Fault) -> Fault:
    """Return a fault with its culprit frame, and with those of its chain and its members."""
    chain = tuple(_blamed(each) for each in fault.chain)
    members = tuple(_blamed(each) for each in fault.members)
    # a group only gathers what its members raised
    own = (each.frame for each in members if each.frame is not None and engine_package(each.frame))
    frame = next(own, None) or culprit(fault.frames)
    return replace(fault, frame=frame, chain=chain, members=members)
