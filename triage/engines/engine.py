"""What triage knows of an inference engine: classes that each engine's file in this package fills.

Every part has a default, so an engine says only what it has: one without a Python package has no `package`,
one without a benchmark of its own has no `benchmark`. All texts are as the engine spells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Size = Literal["tp", "pp", "dp", "ep"]
Scheme = Literal["remainder-to-last", "remainder-to-last-ones", "remainder-before-last"]
"""How the layers that are left over go to the pipeline stages, see `triage.rules.arithmetic.stages`."""

UVICORN = ('"POST ', '" 200 OK')  # its access log: `127.0.0.1:46680 - "POST /v1/completions HTTP/1.1" 200 OK`


def _nothing() -> Mapping[Any, str]:
    return MappingProxyType({})


@dataclass(frozen=True)
class ServerCommand:
    """How its server is started. Flags are long names without dashes, with `-` for `_`.

    A module or program starts the server where the `subcommand` follows it, or by itself where there is none.
    """

    modules: tuple[str, ...] = ()  # `python -m MODULE`, or that module's file, without a subcommand
    serve_modules: tuple[str, ...] = ()  # `python -m MODULE SUBCOMMAND`
    programs: tuple[str, ...] = ()  # file names: console scripts of a package, or programs of their own
    subcommand: str = ""
    aliases: Mapping[str, str] = field(default_factory=_nothing)  # every other spelling of a flag -> the flag
    sizes: Mapping[Size, str] = field(default_factory=_nothing)  # what is parallel -> the flag of its size
    expert_switch: str = ""  # the flag that deals experts out over tp x dp, where ep has no size of its own
    memory_share: str = ""  # the flag of the share of a card's memory that it takes
    default_port: int | None = None
    tls: tuple[str, ...] = ()  # flags with which it speaks TLS
    images: str = ""  # a pattern of container images that start the server by themselves
    image_command: tuple[str, ...] = ()  # what such an image puts before its arguments


@dataclass(frozen=True)
class Package:
    """Its Python package, as it is installed and imported."""

    name: str = ""  # of the package that is imported; "" for an engine that is no Python program
    distributions: tuple[str, ...] = ()  # of the package, the usual one first
    companions: tuple[str, ...] = ()  # packages that are installed for it and may have to fit
    companion_distributions: tuple[str, ...] = ()
    code: tuple[str, ...] = ()  # packages whose frames in a traceback are the engine's own code
    top_level: frozenset[str] = frozenset()  # right below the package: a checkout is known by these
    settings: tuple[str, ...] = ()  # modules that declare its arguments and its environment variables


@dataclass(frozen=True)
class Environment:
    """Its environment variables."""

    prefixes: tuple[str, ...] = ()  # of the variables that matter
    caches: Mapping[str, str] = field(
        default_factory=_nothing
    )  # the variable of a cache -> where that is below HOME without it


@dataclass(frozen=True)
class VersionLine:
    """A line that tells the version, in the one group of `pattern`.

    `needle` is in every such line, "" for one that is only read with others; `is_own`: no other program
    says it, so it tells the engine as well.
    """

    pattern: str
    needle: str = ""
    is_own: bool = False


@dataclass(frozen=True)
class LogFact:
    """A fact of the deployment that a line tells: what the group of `pattern` holds, or `value`."""

    name: str
    needle: str  # in every such line
    pattern: str = ""
    value: str = ""


@dataclass(frozen=True)
class PhaseWords:
    """A step of a start. Of many ranks the first to begin and the last to end it set its time.

    A line announces it that holds one of `lines`, and `pattern` where that is given.
    """

    name: str
    lines: tuple[str, ...]
    ends: bool = False
    pattern: str = ""


@dataclass(frozen=True)
class ReadyLine:
    """A line after which the engine answers.

    With `after`, the name of a phase, it counts only once that was logged: alone it comes too early, or is
    another program's.
    """

    text: str
    after: str = ""

    @property
    def name(self) -> str:
        return self.text.rstrip("! ")


@dataclass(frozen=True)
class Log:
    """What it logs."""

    format: str = ""  # the module of `triage.logs.formats` that reads its line prefixes
    banners: tuple[str, ...] = ()  # said at a start, within the first 400 characters; they tell the engine
    starts: tuple[str, ...] = ()  # said once at a start, and by no code in a traceback
    argument_lines: tuple[str, ...] = ()  # in the lines that hold its arguments; they tell the engine, too
    arguments: Mapping[str, str] = field(
        default_factory=_nothing
    )  # an argument as it is logged -> the fact that it is
    versions: tuple[VersionLine, ...] = ()
    facts: tuple[LogFact, ...] = ()
    phases: tuple[PhaseWords, ...] = ()
    ready: tuple[ReadyLine, ...] = ()
    serving: tuple[str, ...] = ()  # beginnings of lines that it logs while it works on requests
    answered: tuple[str, str] | None = None  # what is in, and ends, the line of a request that was answered
    stopping: tuple[str, ...] = ()  # in the lines with which it takes note that it was asked to stop


@dataclass(frozen=True)
class ServerProcesses:
    """What its processes are called."""

    titles: tuple[str, ...] = ()  # beginnings of process titles, behind which name and ranks stand
    kernel_names: tuple[str, ...] = ()  # beginnings of their names in the kernel's log
    numbered: tuple[str, ...] = ()  # names of workers up to a number that counts over all processes
    failures: str = "Traceback"  # an extended regular expression for the lines of those that failed


@dataclass(frozen=True)
class RequestCounters:
    """How an engine tells how many requests it has."""

    paths: tuple[str, ...] = ()  # of its interface, the best first
    gauges: tuple[str, ...] = ()  # metrics of /metrics whose sum it is
    counters: tuple[
        tuple[str, ...], ...
    ] = ()  # keys of a JSON answer whose sum it is; the first that is there


@dataclass(frozen=True)
class Drain:
    """What it makes of requests that run when SIGTERM comes. Without either it breaks them off."""

    waits: bool = False  # for as long as its manager waits
    seconds: str = ""  # the flag that says for how long


@dataclass(frozen=True)
class Benchmark:
    """Its own benchmark, run by the service's interpreter, and the file that it writes.

    RESULT and DIRECTORY in `options` stand for a file, and for a directory with a `result.json`.
    """

    name: str
    start: tuple[str, ...]  # what follows the interpreter
    options: Mapping[str, str]
    switches: tuple[str, ...]
    result_keys: frozenset[str]  # its result is known by these; the tool with the most of them is meant
    end_to_end: str  # `median_{}_ms`: what it calls the time of a whole request
    note: str  # where its words mean something else than ours
    passed_on: tuple[str, ...] = ()  # switches of the server that it is given, too
    environment: Mapping[str, str] = field(default_factory=_nothing)
    failed: str = ""  # the key of the number of requests that failed; "" where it does not tell
    model: tuple[str, ...] = ()  # keys, one in the other
    version: tuple[str, ...] = ()
    date: str = ""  # the key of `20260512-140351`


@dataclass(frozen=True)
class Pipeline:
    """How it deals the layers of a model out to the stages."""

    variable: str  # the environment variable with which a user deals them out
    schemes: tuple[Scheme, ...]  # of all its versions
    module: str = ""  # whose `get_pp_indices` tells which, where there are several


@dataclass(frozen=True)
class Engine:
    """One inference engine. The default of every part means that there is nothing of the kind."""

    name: str  # as rules, results and options call it
    title: str = ""  # as people write it
    tracker: str = "the engine's tracker"  # where its problems are reported
    command: ServerCommand = ServerCommand()
    package: Package = Package()
    environment: Environment = Environment()
    log: Log = Log()
    processes: ServerProcesses = ServerProcesses()
    requests: RequestCounters = RequestCounters()
    drain: Drain = Drain()
    benchmark: Benchmark | None = None
    pipeline: Pipeline | None = None
