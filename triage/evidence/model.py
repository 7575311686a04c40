"""Queries, answers, and the one interface to live and recorded evidence.

A query turns into a command (`argv`), its raw output into canonical text (`decode`), and that text
into a typed value (`parse`). Redaction works on the canonical text, between the two, so that nothing
unredacted is ever recorded; a recorded case keeps that text, and replay parses it again with the
same code.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from triage.hosts.connection import DEFAULT_TIMEOUT, Output, last_words, why_cut

T = TypeVar("T")
MEBI = 1024 * 1024
NOT_THERE = "the command is not on this host"


class Unanswered(Exception):
    """The host answered, but not the question; the message says why."""


@dataclass(frozen=True)
class Query(Generic[T]):
    """One typed, read-only question. Subclasses are the catalogue, `triage.evidence.catalogue`."""

    name: ClassVar[str]
    purpose: ClassVar[str]  # one line, for `triage policy`
    privilege: ClassVar[str] = ""  # what an ordinary user needs, "" when nothing
    absence: ClassVar[str] = ""  # what is not known, or what is done instead, without an answer
    timeout: ClassVar[float] = DEFAULT_TIMEOUT
    limit: ClassVar[int] = 64 * 1024  # bytes of each output stream; what can honestly be longer says so

    def argv(self) -> tuple[str, ...]:
        """The command, for people to read and for hosts to run."""
        raise NotImplementedError

    def lesser(self) -> tuple[str, ...]:
        """The command for a host whose tools know less or are not there; () where there is none."""
        return ()

    def falls_short(self, output: Output) -> bool:
        """Whether `output` shows that the host is one for the lesser command."""
        return output.code == 127

    def stdin(self) -> bytes:
        return b""

    def places(self) -> tuple[str, ...]:
        """Programs that the command runs, and files that it reads, which may be of others: for root their
        owner does it."""
        return ()

    def account(self) -> str:
        """The account that named the places, as whom root looks at them; "" where it is not one's choice."""
        return ""

    @property
    def is_source(self) -> bool:
        """Whether the answer is program text, in which only unmistakable secrets may be replaced."""
        return False

    def decode(self, output: Output) -> str:
        """Canonical text of an output. Raises Unanswered when the command failed."""
        if output.code != 0 and not output.cut:
            raise Unanswered(failure_of(output))
        return output.stdout.decode("utf-8", "backslashreplace")

    def parse(self, text: str) -> T:
        """The typed value. Raises Unanswered when the text is not what was asked for."""
        raise NotImplementedError

    @property
    def key(self) -> str:
        """Stable identity of the question, used by caches and cases."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.compare}
        return f"{self.name} {json.dumps(fields, sort_keys=True, default=str)}"


def failure_of(output: Output) -> str:
    """Why a command gave no answer, in one line."""
    return NOT_THERE if output.code == 127 else last_words(output)


@dataclass(frozen=True)
class Answer(Generic[T]):
    """A value, or why there is none. `command` is what would get it, ready to paste."""

    query: Query[T]
    value: T | None
    missing: str = ""
    partial: str = ""  # "", or which limit cut the answer: "bytes", "time"
    command: str = ""

    def require(self) -> T:
        """The value, all of it; raises Unanswered when it is missing or was cut: what is not in a part of a
        list may be in the rest."""
        if self.value is None:
            raise Unanswered(self.missing)
        if self.partial:
            why = why_cut(self.partial, self.query.timeout, self.query.limit)
            raise Unanswered(f"it was told only in part: {why}")
        return self.value


@dataclass(frozen=True)
class Origin:
    """The origin of evidence: a host, a case on disk, or a log file alone."""

    kind: Literal["host", "case", "log"]
    name: str


class Evidence(Protocol):
    """Live and recorded evidence answer alike. Asking never changes a host and never raises Unanswered."""

    @property
    def origin(self) -> Origin: ...

    def ask(self, query: Query[T]) -> Answer[T]: ...

    def foresee(self, queries: Sequence[Query[Any]]) -> None:
        """Say what will be asked, so that a host can be asked it at once."""
        ...


@dataclass(frozen=True)
class Layout:
    """Parallel layout: sizes of tensor, pipeline, data and expert parallelism."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1

    def __str__(self) -> str:
        parts = [f"{name}{size}" for name, size in dataclasses.asdict(self).items() if size > 1]
        return " ".join(parts) or "one rank"


EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class EndedRun:
    """The run that ended last, of a container that was started again."""

    ended: str  # ISO 8601
    seconds: int | None  # it lasted; all so far on average where no more is kept; None where nothing is
    result: str  # in systemd's words; "" where not kept


@dataclass(frozen=True)
class Deployment:
    """One inference service on a host, as far as the evidence tells.

    Empty strings, empty mappings and None mean "not known". `arguments` maps long flag names without
    dashes (`pp-size`) to their values; flags without a value map to "". `package_root` is the
    directory of the engine's package in the tree that serves, e.g. `.../site-packages/sglang`.
    """

    name: str  # what to call it: the unit, the container, or `pid 4711`
    engine: str = ""  # the name of one of `triage.engines`
    manager: Literal["systemd", "systemd-user", "process", "docker", "podman", "crictl", "kubectl", ""] = ""
    unit: str = ""
    state: str = ""  # systemd's ActiveState, `running` for a plain process
    result: str = ""  # systemd's Result
    exit_status: str = ""  # e.g. "9/KILL", "1", "0"
    invocation: str = ""  # systemd's InvocationID of the latest run
    started: str = ""  # ISO 8601, of the latest run
    restarts: int = 0  # how often systemd has restarted it by itself since it was last started
    main_pid: int | None = None
    serving_pid: int | None = None  # the process that runs the engine, where it runs
    argv: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=lambda: EMPTY)
    working_directory: str = ""
    log_file: str = ""  # to which a shell that starts it sends what it says
    python: str = ""
    package_root: str = ""
    version: str = ""  # of the engine
    versions: Mapping[str, str] = dataclasses.field(
        default_factory=lambda: EMPTY
    )  # distributions that matter
    arguments: Mapping[str, str] = dataclasses.field(default_factory=lambda: EMPTY)
    layout: Layout = Layout()
    model: str = ""
    host: str = "127.0.0.1"
    port: int | None = None
    disagreements: tuple[str, ...] = ()  # where two sources name different trees: reported, not papered over
    container: str = ""  # its id; `name` is its name, and files are those in it
    image: str = ""  # of the container
    node: str = ""  # of a pod that is reached from another machine, through kubectl
    last_run: EndedRun | None = None  # of a container that was started again
    skipped: str = ""  # why systemd did not start a unit when it was to, which is no failure: its conditions
    user: str = ""  # as whom it runs: of its unit or process; "" for root where a unit names none
    log_namespace: str = ""  # of journald, in which a system unit logs; "" for the host's own journal

    @property
    def chosen_by(self) -> str:
        """What `--unit` takes to choose it among the host's services; "" for a plain process."""
        return self.unit or (self.name if self.container else "")
