"""Inference services that run in containers of docker, compose, podman or Kubernetes.

Asked is the tool whose daemon or monitor runs on the host, or that keeps containers there; kubectl, which
knows those of other machines too, only where nothing else serves or a pod is named. Their files are those in
the container, and are read out of it; the host's own are never taken for them.
"""

from __future__ import annotations

import posixpath
import re
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from triage.evidence.catalogue.containers import (
    Container,
    ContainerDetails,
    ContainerLog,
    Containers,
    Daemon,
    PodmanStorage,
    ReadContainerFile,
    Tool,
)
from triage.evidence.catalogue.files import ReadFile
from triage.evidence.catalogue.kubernetes import ClusterContainers, NodeContainers, PodLog, ReadPodFile
from triage.evidence.discovery.command_line import (
    Launch,
    layout_of,
    model_of,
    parse_arguments,
    port_of,
    recognise,
)
from triage.evidence.model import Deployment, EndedRun, Evidence, Query

TOOLS: tuple[Tool, ...] = ("docker", "podman", "crictl", "kubectl")
MONITORS: dict[str, Daemon] = {"dockerd": "docker", "conmon": "podman"}
KUBELETS = ("kubelet", "k3s", "kubelite")
OF_A_KUBELET = " -namespace k8s.io "  # the shim of containerd, which outlives both
OF_CONTAINERD = re.compile(r"\S{0,255}?containerd-shim\S{0,40} -namespace (?!k8s\.io |moby )\S+ ")
LOST = re.compile(r"\.sock\b(?!.*permission denied)|context deadline exceeded")
CLEAN = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)  # as systemd counts them

_MADE = re.compile(r"(?:-[bcdfghjklmnpqrstvwxz0-9]{1,10})?-(?:[bcdfghjklmnpqrstvwxz2456789]{5}|[0-9]{1,10})")
"""What a controller puts after its name: no vowels, so that `kimi` does not mean `kimi-eagle-0`."""

Found = tuple[Tool, Container]


def containers(evidence: Evidence, commands: Sequence[str]) -> tuple[Found, ...]:
    """Every container of the host, by the commands that run there; ended ones too."""
    programs = {posixpath.basename(command.partition(" ")[0]) for command in commands}
    found: list[Found] = []
    for program, tool in MONITORS.items():
        there = program in programs or (tool == "podman" and evidence.ask(PodmanStorage()).value)
        ids = evidence.ask(Containers(tool)).value if there else None
        details = evidence.ask(ContainerDetails(tool, ids)).value if ids else None
        found += [(tool, each) for each in details or ()]
    if is_node(commands):
        known = on_node(evidence)
        newest: dict[str, Container] = {}
        for each in known:
            newest.setdefault(each.name, each)
        found += [("crictl", _with_last_run(each, known)) for each in newest.values()]
    return tuple(found)


def _with_last_run(container: Container, known: Sequence[Container]) -> Container:
    """Return containers with their last run, which the runtime may tell as another container."""
    before = _before(container, known)
    if container.ended or before is None:
        return container
    return replace(
        container,
        exit_code=before.exit_code,
        out_of_memory=before.out_of_memory,
        ended=before.ended,
        lasted=before.lasted,
    )


def _before(container: Container, known: Sequence[Container]) -> Container | None:
    alike = [each for each in known if each.name == container.name and each.restarts < container.restarts]
    return alike[0] if alike else None


def is_node(commands: Sequence[str]) -> bool:
    """Whether containers of Kubernetes run among these commands."""
    return has_kubelet(commands) or any(OF_A_KUBELET in command for command in commands)


def has_kubelet(commands: Iterable[str]) -> bool:
    return any(posixpath.basename(command.partition(" ")[0]) in KUBELETS for command in commands)


def has_others(commands: Sequence[str]) -> bool:
    """Whether containerd has containers that nerdctl or ctr may have made, which nobody here asks."""
    programs = {posixpath.basename(command.partition(" ")[0]) for command in commands}
    is_alone = "containerd" in programs and "dockerd" not in programs and not is_node(commands)
    return is_alone or any(map(OF_CONTAINERD.match, commands))


def said_by_crictl(missing: str) -> str:
    """Why crictl gave no answer, with what to do where it did not find the runtime."""
    hint = "; name the runtime-endpoint in its /etc/crictl.yaml" if LOST.search(missing) else ""
    return f"{missing}{hint}"


def on_node(evidence: Evidence) -> tuple[Container, ...]:
    """The containers of pods on this node, those of earlier starts too, newest first."""
    ids = evidence.ask(Containers("crictl")).value
    return (evidence.ask(NodeContainers(ids)).value or ()) if ids else ()


def in_cluster(evidence: Evidence, namespace: str = "") -> tuple[Found, ...]:
    """The containers of a cluster's pods, as far as this machine's kubectl may list them."""
    found = evidence.ask(ClusterContainers(namespace)).value or ()
    return tuple(("kubectl", each) for each in found)


def names_of(found: Iterable[Found]) -> Mapping[str, str]:
    """Return each container's name by its id: that of its pod, if nothing else serves in the pod."""
    each_one = tuple(container for _, container in found)
    serving = Counter(_pod(container) for container in each_one if serves(container))
    return {
        container.id: _pod(container)
        if serves(container) and serving[_pod(container)] == 1
        else container.name
        for container in each_one
    }


def chosen(found: Sequence[Found], name: str) -> tuple[Found, ...]:
    """Those that are meant by a name: of a container, of a pod, or of what made the pod (`kimi` for
    `kimi-6d5f8c7b9-x2x4z`), with its namespace before it or without. Of a pod, what serves in it.
    """
    for means in (_is_called, _was_made_by):
        meant = tuple(each for each in found if means(each[1], name))
        if meant:
            return tuple(each for each in meant if serves(each[1])) or meant
    return ()


def _pod(container: Container) -> str:
    return "/".join(container.name.split("/")[:2])


def _is_called(container: Container, name: str) -> bool:
    pod = _pod(container)
    return name in (container.id, container.name, pod, pod.partition("/")[2])


def _was_made_by(container: Container, name: str) -> bool:
    pod = _pod(container)
    rests = (each.removeprefix(name) for each in (pod, pod.partition("/")[2]) if each.startswith(name))
    return "/" in pod and any(map(_MADE.fullmatch, rests))


def serves(container: Container) -> bool:
    return recognise(container.argv, container.environment) is not None


def container_deployment(tool: Tool, container: Container, name: str = "") -> Deployment:
    """What a container says of the service in it, and what to call it."""
    launch = recognise(container.argv, container.environment) or Launch("", container.argv, ())
    arguments, loose = parse_arguments(launch.engine, launch.arguments)
    ended = container.state != "running" and bool(container.started)
    return Deployment(
        name=name or container.name,
        engine=launch.engine,
        manager=tool,
        container=container.id,
        state=container.state,
        result=_result(container) if ended else "",
        exit_status=str(container.exit_code or 0) if ended else "",
        started=container.started,
        restarts=container.restarts,
        last_run=_last_run(container),
        main_pid=container.pid,
        argv=container.argv,
        environment=MappingProxyType({**container.environment, **launch.environment}),
        working_directory=container.working_directory or "/",
        python=launch.python,
        arguments=MappingProxyType(arguments),
        layout=layout_of(launch.engine, arguments),
        model=model_of(arguments, loose),
        host=arguments.get("host", "") or "127.0.0.1",
        port=port_of(launch.engine, arguments, is_all="config" not in arguments),
        image=container.image,
        node=container.node,
    )


def container_of(deployment: Deployment) -> tuple[Tool, str] | None:
    """The tool that knows the deployment's container, and its id."""
    for tool in TOOLS:
        if deployment.container and deployment.manager == tool:
            return tool, deployment.container
    return None


def details_of(evidence: Evidence, tool: Tool, id: str) -> Container | None:
    """What its tool says of one container."""
    if tool == "kubectl":
        known = [each for _, each in in_cluster(evidence, id.partition("/")[0])]
    elif tool == "crictl":
        known = list(on_node(evidence))
    else:
        known = list(evidence.ask(ContainerDetails(tool, (id,))).value or ())
    return next((each for each in known if each.id == id), None)


def file_in(container: tuple[Tool, str] | None, path: str, reader: str = "") -> Query[str]:
    """What reads a text file of the container; where there is none, of the host, as the account `reader`."""
    if container is None:
        return ReadFile(path, reader)
    tool, id = container
    if tool == "crictl" or tool == "kubectl":
        return ReadPodFile(tool, id, path)
    return ReadContainerFile(tool, id, path)


def log_of(tool: Tool, id: str) -> Query[str]:
    return PodLog(tool, id) if tool == "kubectl" else ContainerLog(tool, id)


def earlier_log_of(evidence: Evidence, deployment: Deployment) -> Query[str] | None:
    """The log of the start before this one, which failed, of a pod's container that runs again."""
    if not deployment.restarts or deployment.state != "running":
        return None
    if deployment.manager == "kubectl":
        return PodLog("kubectl", deployment.container, previous=True)
    if deployment.manager != "crictl":  # docker and podman keep one log for all starts
        return None
    known = on_node(evidence)
    before = next((_before(each, known) for each in known if each.id == deployment.container), None)
    return ContainerLog("crictl", before.id) if before else None


def _last_run(container: Container) -> EndedRun | None:
    if not container.restarts or not container.ended:
        return None
    return EndedRun(container.ended, container.lasted, _result(container))


def _result(container: Container) -> str:
    """Return the result in systemd's words, "" if it is forgotten."""
    if container.out_of_memory:
        return "oom-kill"
    if container.exit_code is None:
        return ""
    if container.exit_code - 128 in CLEAN:
        return "success"
    if container.exit_code > 128:
        return "signal"
    return "exit-code" if container.exit_code else "success"
