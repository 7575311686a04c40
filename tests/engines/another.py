"""Adds an engine that is no Python program, without sizes or a benchmark, and uses all that reads it."""

from __future__ import annotations

from types import MappingProxyType

import pytest

import triage.engines as engines
from triage.engines.engine import (
    Engine,
    Log,
    ReadyLine,
    RequestCounters,
    ServerCommand,
    ServerProcesses,
    VersionLine,
)

ANOTHER = Engine(
    name="another",
    title="Another",
    command=ServerCommand(
        programs=("another-server",),
        aliases=MappingProxyType({"m": "model", "c": "ctx-size"}),
        default_port=8080,
    ),
    log=Log(
        banners=("another: build",),
        starts=("another: build",),
        versions=(VersionLine(r"another: build = ([\w.]{1,60})", "another: build", is_own=True),),
        ready=(ReadyLine("another serves at"),),
    ),
    processes=ServerProcesses(kernel_names=("another-server",)),
    requests=RequestCounters(paths=("/metrics",), gauges=("another:requests",)),
)
engines.ENGINES = MappingProxyType({**engines.ENGINES, "another": ANOTHER})

from triage.common.errors import RefusedError, UsageError  # noqa: E402
from triage.evidence.catalogue import EngineScripts  # noqa: E402
from triage.evidence.discovery.command_line import (  # noqa: E402
    layout_of,
    model_of,
    parse_arguments,
    port_of,
    recognise,
)
from triage.evidence.discovery.launched import with_launch  # noqa: E402
from triage.evidence.model import Deployment, Layout, Origin  # noqa: E402
from triage.hosts.local import LocalConnection  # noqa: E402
from triage.logs import read_incidents  # noqa: E402
from triage.logs.facts import facts_of, phase_of  # noqa: E402
from triage.logs.model import LogSource  # noqa: E402
from triage.rules.schema import PerEngine  # noqa: E402
from triage.verify.layouts.launch_commands import with_layout  # noqa: E402
from triage.verify.load import client  # noqa: E402
from triage.verify.load.engine_tool import require  # noqa: E402
from triage.verify.service.drain import fate  # noqa: E402
from triage.verify.service.phases import StartLog  # noqa: E402


class NobodyToAsk:
    origin = Origin("host", "gpu01")

    def ask(self, query: object) -> None:
        raise AssertionError(f"{query} was asked")


COMMAND = ("/opt/bin/another-server", "-m", "/srv/m.gguf", "-c", "4096")
launch = recognise(("env", "A=1", *COMMAND))
assert launch is not None
assert (launch.engine, launch.argv, launch.python) == ("another", COMMAND, "")
assert recognise(("vim", *COMMAND)) is None
assert recognise(("sh", "-c", "exec another-server -m x")) is not None
arguments, loose = parse_arguments("another", launch.arguments)
assert arguments == {"model": "/srv/m.gguf", "ctx-size": "4096"}
assert model_of(arguments, loose) == "/srv/m.gguf"
assert port_of("another", arguments) == 8080
assert layout_of("another", arguments) == Layout()

deployment = with_launch(NobodyToAsk(), Deployment("a.service"), launch, ("root",))  # type: ignore[arg-type]
assert (deployment.engine, deployment.python, deployment.disagreements) == ("another", "", ())
assert fate(deployment) == "a restart breaks them off"
with pytest.raises(RefusedError) as refused:
    require(LocalConnection(), deployment)
assert "Another" not in refused.value.happened
with pytest.raises(UsageError, match="tp1"):
    with_layout(COMMAND, "another", Layout(tp=2))

assert dict(facts_of("another: build = b4711")) == {"version": "b4711", "engine": "another"}
assert phase_of("main: another serves at http://127.0.0.1:8080") == "another serves at"
starting = StartLog()
starting.feed("main: another serves at http://127.0.0.1:8080", 1.0)
assert starting.ready
log = b"another: build = b4711\nTraceback (most recent call last):\nValueError: x\n"
assert read_incidents([LogSource("log", log)])[0].facts["engine"] == "another"

assert "another-server" in EngineScripts(("/x",)).argv()[2]
assert "another:requests" in client._COUNTED["gauges"]
assert str(PerEngine({"another": "-c 1"})) == "-c 1 (Another)"
