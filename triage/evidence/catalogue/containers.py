"""Containers, as docker and podman know them; the command lines of both are the same as far as they go here.

    $ podman ps --all --no-trunc --quiet
    74d579caf1f177356cb985ced8cd073a7f8e7f81173ef19c994841628082a26e
    $ podman inspect --type=container 74d579caf1f1...
    [{"Id": "74d5...", "Path": "/opt/venv/bin/python", "Args": ["-m", "sglang.launch_server", ...],
      "State": {"Status": "exited", "OOMKilled": false, "Pid": 0, "ExitCode": 3, "StartedAt": "2026-..."},
      "Name": "kimi", "RestartCount": 0, "Config": {"Env": ["NCCL_DEBUG=WARN", ...], ...}, ...}]
    $ podman logs --timestamps 74d579caf1f1...
    2026-11-29T20:31:04.730533000Z [2026-11-29 20:30:01 TP0] Load weight begin.

(podman 4.3.1; docker puts a slash before the name, and counts restarts in the same place.)

What a container wrote on its standard error comes on that of the tool, among the tool's own words, which have
no time before them:

    $ crictl logs --timestamps 41a906fa14a2...
    time="2026-11-29T23:24:33Z" level=warning msg="Config \\"/etc/crictl.yaml\\" does not exist, ..."
    time="2026-11-29T23:24:33Z" level=warning msg="runtime connect using default endpoints: [unix:///run/..."
    2026-11-29T23:24:12.730533000Z IndexError: list index out of range

(kubernetes-sigs/cri-tools, cmd/crictl/main.go and pkg/common/config.go, 1.32; with `debug: true` in its
configuration all answers of the runtime are told as well. podman warns in the same form, kubectl in its own.)
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Literal

from triage.common.json import parse_json
from triage.evidence.catalogue.files import require_json
from triage.evidence.discovery.environment import relevant
from triage.evidence.model import EMPTY, MEBI, Query, Unanswered, failure_of
from triage.hosts.connection import Output

Daemon = Literal["docker", "podman"]
Tool = Literal["docker", "podman", "crictl", "kubectl"]
"""What knows a container. crictl lists and logs as the two daemons do."""

NEEDS = "membership in group docker, or root; for crictl root"
LINES = 200_000
LOG_LIMIT = 64 * MEBI
LOG_TIMEOUT = 120.0  # seconds
MAX_CONTAINERS = 256
_TIMED = re.compile(rb"\d{4}-\d\d-\d\dT")
_ID = re.compile(r"[0-9a-f]{12,64}")
_OWN_MEMORY = ("", "private", "shareable", None)


@dataclass(frozen=True)
class Container:
    """One container. `argv` is what runs in it; times are ISO 8601 in UTC, "" when there is none."""

    id: str
    name: str
    image: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)  # what matters, no secrets
    working_directory: str = ""
    state: str = ""  # `running`, `exited`, `restarting`, ...
    pid: int | None = None  # of its first process, as the host sees it
    exit_code: int | None = 0  # of the run that ended last; None where that is forgotten when it runs again
    out_of_memory: bool = False
    error: str = ""
    started: str = ""
    ended: str = ""  # the run that ended last
    lasted: int | None = None  # seconds, that run; all so far on average where no more is kept
    restarts: int = 0
    service: str = ""  # of docker compose
    shm_size: int = 0  # bytes of its own /dev/shm; 0 where it has that of the host, or of another container
    node: str = ""  # of the cluster, on which it runs
    owner: str = ""  # its pod's id on a node; in a cluster what makes that anew, `ReplicaSet/kimi-6d5f8c7b9`
    created: str = ""  # its pod


@dataclass(frozen=True)
class PodmanStorage(Query[str]):
    """Asks where podman keeps the containers of the user as whom commands run.

    podman itself would make the directory where there is none.
    """

    name: ClassVar[str] = "podman-storage"
    purpose: ClassVar[str] = (
        "know whether to ask podman, of which nothing runs once its containers have ended"
    )
    absence: ClassVar[str] = "podman is not asked for containers"

    def argv(self) -> tuple[str, ...]:
        find = (
            'place=${XDG_DATA_HOME:-$HOME/.local/share}/containers; [ "$(id -u)" != 0 ] || '
            'place=/var/lib/containers; [ -d "$place/storage" ] && echo "$place/storage"'
        )
        return ("sh", "-c", find)

    def parse(self, text: str) -> str:
        return text.rstrip("\n")


@dataclass(frozen=True)
class Containers(Query[tuple[str, ...]]):
    """The ids of all containers, also of those that have ended."""

    name: ClassVar[str] = "containers"
    purpose: ClassVar[str] = "find inference services that run in containers, and those that died there"
    absence: ClassVar[str] = "a service in a container counts as a plain process"
    privilege: ClassVar[str] = NEEDS
    limit: ClassVar[int] = MEBI

    tool: Tool

    def argv(self) -> tuple[str, ...]:
        return (self.tool, "ps", "--all", "--no-trunc", "--quiet")

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(line for line in text.split() if _ID.fullmatch(line))[:MAX_CONTAINERS]


@dataclass(frozen=True)
class ContainerDetails(Query[tuple[Container, ...]]):
    """What containers run, and how they ended."""

    name: ClassVar[str] = "container-details"
    purpose: ClassVar[str] = "read the command, state and result of containers"
    absence: ClassVar[str] = "a service in a container counts as a plain process"
    privilege: ClassVar[str] = NEEDS
    limit: ClassVar[int] = 8 * MEBI

    tool: Daemon
    ids: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        return (self.tool, "inspect", "--type=container", *self.ids)

    def decode(self, output: Output) -> str:
        """One JSON object a line, with nothing but what is asked for: environments hold secrets."""
        try:
            told = [item for item in parse_json(output.stdout) if isinstance(item["Id"], str)]
        except (ValueError, TypeError, LookupError):
            told = []
        if not told:  # one that has gone meanwhile is a failure too, but the others are told
            raise Unanswered(failure_of(output) if output.code else f"{self.tool} told of no container")
        return "".join(f"{json.dumps(_needed(item))}\n" for item in told)

    def parse(self, text: str) -> tuple[Container, ...]:
        try:
            return tuple(_container(parse_json(line)) for line in text.splitlines())
        except (ValueError, TypeError, LookupError, AttributeError):
            raise Unanswered("the description of the containers is damaged") from None


@dataclass(frozen=True)
class ContainerLog(Query[str]):
    """The newest lines of a container's log, both streams in the order of their times."""

    name: ClassVar[str] = "container-log"
    purpose: ClassVar[str] = "read what a service in a container logged"
    absence: ClassVar[str] = "the command ends: without a log there is no diagnosis"
    privilege: ClassVar[str] = NEEDS
    limit: ClassVar[int] = LOG_LIMIT
    timeout: ClassVar[float] = LOG_TIMEOUT

    tool: Tool
    id: str

    def argv(self) -> tuple[str, ...]:
        return (self.tool, "logs", "--timestamps", "--tail", str(LINES), self.id)

    def decode(self, output: Output) -> str:
        lines = [line for line in output.stdout.split(b"\n") if line]
        errors = [line for line in output.stderr.split(b"\n") if _TIMED.match(line)]
        if output.code != 0 and not output.cut and not lines + errors:
            raise Unanswered(failure_of(output))
        if lines and errors:
            lines = sorted(lines + errors, key=lambda line: line[:30])  # the time, every digit is given
        return b"".join(line + b"\n" for line in lines or errors).decode("utf-8", "surrogateescape")

    def parse(self, text: str) -> str:
        return text


@dataclass(frozen=True)
class ReadContainerFile(Query[str]):
    """A text file in a container, running or not, out of the archive that `cp` makes of it.

    Bytes that are not UTF-8, and links, come as in ReadFile. podman follows links by itself; docker names the
    file in the archive as that to which the link leads, in the container.
    """

    name: ClassVar[str] = "read-container-file"
    purpose: ClassVar[str] = "read installed source and a model's config.json in a container"
    absence: ClassVar[str] = "a probe that needs it is missing"
    privilege: ClassVar[str] = NEEDS
    limit: ClassVar[int] = 8 * MEBI

    tool: Daemon
    id: str
    path: str

    def argv(self) -> tuple[str, ...]:
        follow = ("--follow-link",) if self.tool == "docker" else ()
        return (self.tool, "cp", *follow, f"{self.id}:{self.path}", "-")

    @property
    def is_source(self) -> bool:
        return self.path.endswith(".py")

    def decode(self, output: Output) -> str:
        super().decode(output)
        try:
            with tarfile.open(fileobj=io.BytesIO(output.stdout)) as archive:
                file = next((each for each in archive if each.isfile()), None)
                if file is None:
                    raise Unanswered(f"{self.path} is no plain file")
                if self.is_source and not file.name.endswith(".py"):
                    raise Unanswered(f"it is a link to {file.name}, which is no *.py")
                data = archive.extractfile(file)
                text = data.read().decode("utf-8", "surrogateescape") if data else ""
        except (tarfile.TarError, EOFError, OSError, ValueError):
            raise Unanswered(f"{self.tool}'s answer is no archive") from None
        require_json(self.path, text)
        return text

    def parse(self, text: str) -> str:
        return text


def _needed(item: Mapping[str, Any]) -> dict[str, Any]:
    config, state, host = (_mapping(item.get(name)) for name in ("Config", "State", "HostConfig"))
    pairs = (str(word).partition("=") for word in config.get("Env") or ())
    environment = relevant({name: value for name, equals, value in pairs if equals})
    kept = ("Status", "Pid", "ExitCode", "OOMKilled", "Error", "StartedAt", "FinishedAt")
    return {
        **{name: item.get(name) for name in ("Id", "Name", "Path", "Args", "Created", "RestartCount")},
        "Image": config.get("Image") or item.get("ImageName"),
        "Environment": environment,
        "WorkingDir": config.get("WorkingDir"),
        "State": {name: state.get(name) for name in kept},
        "Service": _mapping(config.get("Labels")).get("com.docker.compose.service"),
        "ShmSize": host.get("ShmSize"),
        "IpcMode": host.get("IpcMode"),
    }


def _container(item: Mapping[str, Any]) -> Container:
    state = item["State"]
    runs = state.get("Status") == "running"
    restarts = int(item.get("RestartCount") or 0)
    created, started, ended = (
        moment(text) for text in (item.get("Created"), state.get("StartedAt"), state.get("FinishedAt"))
    )
    lasted = seconds_between(created, ended, restarts) if runs else seconds_between(started, ended)
    argv = (item.get("Path") or "", *(item.get("Args") or ()))
    return Container(
        id=str(item["Id"]),
        name=str(item.get("Name") or "").lstrip("/"),
        image=str(item.get("Image") or ""),
        argv=tuple(str(word) for word in argv if word != ""),
        environment={str(name): str(value) for name, value in (item.get("Environment") or {}).items()},
        working_directory=str(item.get("WorkingDir") or ""),
        state=str(state.get("Status") or ""),
        pid=int(state.get("Pid") or 0) or None,
        exit_code=None if runs else int(state.get("ExitCode") or 0),
        out_of_memory=bool(state.get("OOMKilled")),
        error=str(state.get("Error") or ""),
        started=started,
        ended=ended,
        lasted=lasted,
        restarts=restarts,
        service=str(item.get("Service") or ""),
        shm_size=int(item.get("ShmSize") or 0) if item.get("IpcMode") in _OWN_MEMORY else 0,
    )


def moment(text: object) -> str:
    """`2026-11-29T21:31:04.730533+01:00` -> `2026-11-29T20:31:04+00:00`; "" where there is none."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)", str(text))
    if found is None or found[1] < "1971":
        return ""
    try:
        when = datetime.fromisoformat(f"{found[1]}{found[2].replace('Z', '+00:00')}")
        return when.astimezone(timezone.utc).isoformat()
    except (ValueError, OverflowError):
        return ""


def seconds_between(start: str, end: str, runs: int = 1) -> int | None:
    """How long each of so many runs took on average; None where that is not known."""
    if not start or not end or runs < 1:
        return None
    return int((datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()) // runs


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
