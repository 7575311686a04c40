"""How much a fault can explain, and why: what separates a cause from what follows of it."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import lru_cache

from triage.logs.model import Fault


class Weight(enum.IntEnum):
    ROOT = 0  # can be a cause
    DEATH = 1  # the fact that a process died, without its reason
    TIMEOUT = 2  # somebody waited for somebody else
    CONSEQUENCE = 3  # says itself that something else failed
    WEAK = 4  # a connection that broke: a consequence, or a client that left
    SERVICE = 5  # how the service manager saw the end
    ERROR = 6  # an error line that no pattern knows
    TEARDOWN = 7
    BENIGN = 8


@dataclass(frozen=True)
class Weighed:
    """A weight, and the reason for it in words that may follow "because"."""

    weight: Weight
    because: str = ""


_TYPES: dict[str, Weighed] = {
    **dict.fromkeys(
        ("EngineDeadError", "AsyncEngineDeadError", "MQEngineDeadError"),
        Weighed(Weight.CONSEQUENCE, "it only says that the engine is already dead"),
    ),
    **dict.fromkeys(
        ("ActorDiedError", "RayActorError", "ActorUnavailableError", "RayChannelError", "WorkerCrashedError"),
        Weighed(Weight.CONSEQUENCE, "Ray reports that another process is gone"),
    ),
    "RayTaskError": Weighed(Weight.CONSEQUENCE, "Ray hands on the error of another process"),
    "EOFError": Weighed(Weight.CONSEQUENCE, "the process at the other end of a pipe is gone"),
    "ChildFailedError": Weighed(Weight.CONSEQUENCE, "the launcher reports that a child failed"),
    "ProcessRaisedException": Weighed(Weight.CONSEQUENCE, "the launcher reports that a child failed"),
    "CalledProcessError": Weighed(Weight.DEATH, "a program that it ran failed"),
    "BrokenProcessPool": Weighed(Weight.DEATH, "a process of a pool died"),
    **dict.fromkeys(
        ("BrokenPipeError", "ConnectionResetError", "ConnectionAbortedError", "ConnectionRefusedError"),
        Weighed(Weight.WEAK, "the other end of a connection is gone"),
    ),
    **dict.fromkeys(
        ("CancelledError", "ClientDisconnect", "GeneratorExit", "IncompleteReadError", "ContextTerminated"),
        Weighed(Weight.WEAK, "work was given up because somebody else stopped"),
    ),
    "KeyboardInterrupt": Weighed(Weight.TEARDOWN, "somebody stopped it"),
    "SystemExit": Weighed(Weight.TEARDOWN, "the process was ending"),
    **dict.fromkeys(
        (
            "TimeoutError",
            "DistStoreError",
            "RayChannelTimeoutError",
            "GetTimeoutError",
            "Timeout",
            "ReadTimeout",
        ),
        Weighed(Weight.TIMEOUT, "it waited for another process"),
    ),
}

# in lower case, as messages are compared
_PHRASES: tuple[tuple[str, Weighed], ...] = (
    (
        r"see (?:the )?(?:root cause|stack trace|error messages?|logs?)\b|check the stack trace above"
        r"|check the logs for more details|error raised in subprocess:"
        r"|initialization failed due to an exception in a background|engine core initialization failed"
        r"|engine process failed to start|background loop (?:has errored|is stopped)"
        r"|engine loop (?:is not running|has died)|failed core proc",
        Weighed(Weight.CONSEQUENCE, "it refers to a cause that was reported elsewhere"),
    ),
    (
        r"connection (?:closed|reset) by (?:remote )?peer|remote process exited|communicator was aborted"
        r"|broken pipe|recvvalue failed|failed to recv, got 0 bytes|socket closed|remote worker crashing"
        r"|was aborted on rank",
        Weighed(Weight.CONSEQUENCE, "it was raised in communication: a peer went away"),
    ),
    (
        r"rank \d{1,6} scheduler died|died unexpectedly|crashed with exit code",
        Weighed(Weight.DEATH, "a child process died"),
    ),
    (
        r"the client socket has timed out|timed out after|store (?:wait|get) timeout|wait timeout after"
        r"|timed out waiting|rpc call to \w{1,80} timed out|collective operation timeout"
        r"|barrier.{0,80}timed? ?out",
        Weighed(Weight.TIMEOUT, "it waited for another process"),
    ),
)
_compiled = lru_cache(maxsize=None)(re.compile)


def weigh(fault: Fault, level: str) -> Weighed:
    """The weight of an exception or native dump; `level` is that of the record that carried it."""
    if fault.header.startswith("Exception ignored in") or (
        fault.frames and fault.frames[-1].function == "__del__"
    ):
        return Weighed(Weight.TEARDOWN, "raised while objects were being destroyed")
    if level in ("WARNING", "INFO", "DEBUG", "NOTICE"):
        return Weighed(Weight.BENIGN, f"the program itself logged it as {level} and went on")
    if fault.doubt:
        return Weighed(Weight.ERROR)
    return _weigh(fault)


def _weigh(fault: Fault) -> Weighed:
    if fault.members:
        return min(map(_weigh, fault.members), key=lambda weighed: weighed.weight)
    own = _alone(fault)
    if not fault.chain:
        return own
    origin = _alone(fault.chain[-1])
    if own.weight is Weight.ROOT and origin.weight in (Weight.TIMEOUT, Weight.CONSEQUENCE, Weight.WEAK):
        return Weighed(origin.weight, f"it began with {fault.chain[-1].type}: {origin.because}")
    if own.weight is Weight.CONSEQUENCE and origin.weight is Weight.ROOT and fault.link == "cause":
        return Weighed(Weight.ROOT, f"it was raised from {fault.chain[-1].type}")
    return own


def _alone(fault: Fault) -> Weighed:
    """The weight of an exception by its type and its message."""
    name = fault.type.rpartition(".")[2].partition("(")[0]
    known = _TYPES.get(name)
    if known is not None:
        return known
    said = fault.message[:2000]
    lower = said.lower()
    for pattern, weighed in _PHRASES:
        if _compiled(pattern).search(lower):
            return weighed
    if name == "RuntimeError" and said == "cancelled":
        return Weighed(Weight.CONSEQUENCE, "waiting was given up because a peer went away")
    if name == "KeyError" and re.match(r"'(?:cmpl|chatcmpl|req)-", said):
        return Weighed(Weight.CONSEQUENCE, "it misses the answer that a worker never gave to a request")
    return Weighed(Weight.ROOT)
