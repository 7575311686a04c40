"""Inference services that run in containers of docker, compose or podman.

Asked is the tool whose daemon or monitor runs on the host, or that keeps containers there. Their files are
those in the container, and are read out of it; the host's own are never taken for them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from types import MappingProxyType

from triage.evidence.commandline import (
    DEFAULT_PORTS,
    Launch,
    layout_of,
    model_of,
    parse_arguments,
    recognise,
)
from triage.evidence.model import Deployment, Evidence, Query
from triage.evidence.queries.containers import (
    Container,
    ContainerDetails,
    Containers,
    PodmanStorage,
    ReadContainerFile,
    Tool,
)
from triage.evidence.queries.files import ReadFile

TOOLS: tuple[Tool, ...] = ("docker", "podman")
MONITORS: dict[str, Tool] = {"dockerd": "docker", "conmon": "podman"}


def containers(evidence: Evidence, commands: Iterable[str]) -> tuple[tuple[Tool, Container], ...]:
    """Every container of the host, by the commands that run there; ended ones too."""
    programs = {posixpath.basename(command.partition(" ")[0]) for command in commands}
    found: list[tuple[Tool, Container]] = []
    for program, tool in MONITORS.items():
        there = program in programs or (tool == "podman" and evidence.ask(PodmanStorage()).value)
        ids = evidence.ask(Containers(tool)).value if there else None
        details = evidence.ask(ContainerDetails(tool, ids)).value if ids else None
        found += [(tool, each) for each in details or ()]
    return tuple(found)


def serves(container: Container) -> bool:
    return recognise(container.argv) is not None


def container_deployment(tool: Tool, container: Container) -> Deployment:
    """What a container says of the service in it."""
    launch = recognise(container.argv) or Launch("", container.argv, ())
    arguments, loose = parse_arguments(launch.engine, launch.arguments)
    port = arguments.get("port", "")
    ended = container.state in ("exited", "dead", "restarting")
    return Deployment(
        name=container.name,
        engine=launch.engine,
        manager=tool,
        container=container.id,
        state=container.state,
        result=_result(container) if ended else "",
        exit_status=str(container.exit_code) if ended else "",
        started=container.started,
        restarts=container.restarts,
        main_pid=container.pid,
        argv=container.argv,
        environment=MappingProxyType({**container.environment, **launch.environment}),
        working_directory=container.working_directory or "/",
        python=launch.python,
        arguments=MappingProxyType(arguments),
        layout=layout_of(launch.engine, arguments),
        model=model_of(arguments, loose),
        host=arguments.get("host", "") or "127.0.0.1",
        port=int(port) if port.isdecimal() and len(port) < 6 else DEFAULT_PORTS.get(launch.engine),
    )


def container_of(deployment: Deployment) -> tuple[Tool, str] | None:
    """The tool that knows the deployment's container, and its id."""
    for tool in TOOLS:
        if deployment.container and deployment.manager == tool:
            return tool, deployment.container
    return None


def file_in(container: tuple[Tool, str] | None, path: str) -> Query[str]:
    """What reads a text file of the container, or of the host where there is none."""
    return ReadContainerFile(*container, path) if container else ReadFile(path)


def _result(container: Container) -> str:
    """In systemd's words."""
    if container.out_of_memory:
        return "oom-kill"
    if container.exit_code > 128:
        return "signal"
    return "exit-code" if container.exit_code else "success"
