"""What a run keeps of its faults is bounded, and counted beyond that."""

from __future__ import annotations

from triage.logs.faults.weight import Weighed, Weight
from triage.logs.model import Fault, Frame, Position
from triage.logs.run import FEW, ROOM, FoundFault, LogRun, Room

DEEP = tuple(Frame("/x/a.py", number, "f") for number in range(1000))


def add(run: LogRun, number: int, frames: tuple[Frame, ...] = DEEP) -> None:
    fault = Fault("exception", f"Error{number}", "x" * 4000, Position("log", number), frames=frames)
    run.add(FoundFault(fault, Weighed(Weight.ROOT), number))


def test_faults_with_many_frames_share_the_room_of_their_source() -> None:
    room = Room()
    one, other = LogRun("log", room=room), LogRun("log", room=room)
    for number in range(1, 1000):
        add(one, number)
        add(other, number)
    kept = len(one.found) + len(other.found)
    assert 2 * FEW < kept < ROOM / (400 * len(DEEP)) + 2 * FEW
    assert one.dropped + other.dropped == 2 * 999 - kept
    last = LogRun("log", room=room)
    add(last, 1)
    assert len(last.found) == 1


def test_a_fault_that_is_said_again_is_counted_in_the_end() -> None:
    run = LogRun("log")
    for _ in range(5):
        add(run, 1, ())
    (found,) = run.found.values()
    assert (found.fault.count, found.more) == (1, 4)
