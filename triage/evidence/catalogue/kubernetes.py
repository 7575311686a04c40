"""Containers of Kubernetes pods: as crictl knows them on their node, and as kubectl knows them anywhere.

    # crictl inspect --output json 5d1c0a...
    {"status": {"metadata": {"name": "kimi", "attempt": 3}, "state": "CONTAINER_EXITED",
                "startedAt": "2026-11-29T20:31:04.730533Z", "exitCode": 137, "reason": "OOMKilled",
                "labels": {"io.kubernetes.pod.namespace": "llm", ...}, ...},
     "info": {"pid": 0, "runtimeSpec": {"process": {"args": ["python3", "-m", ...], "env": [...]}, ...}, ...}}
    $ kubectl get pods --output json --namespace llm
    {"items": [{"metadata": {"namespace": "llm", "name": "kimi-0", "ownerReferences": [...]},
                "spec": {"nodeName": "gpu01", "containers": [{"name": "kimi", "command": [...], ...}]},
                "status": {"containerStatuses": [{"name": "kimi", "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "..."}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", ...}}}]}}, ...]}

crictl describes one container by an object, several by a list, or before 1.31 one after the other. Where one
of them has gone meanwhile, the list is not printed at all, and those before 1.31 end there. `startedAt` and
`finishedAt` of one that has not come so far are of the year 1. (kubernetes-sigs/cri-tools,
cmd/crictl/container.go and util.go, of 1.20, 1.29 and 2026; cri-o/cri-o, server/container_status.go.)

    # crictl inspect --output json 5d1c0a... 41a906...
    E1129 23:24:33.404931    1520 log.go:32] "ContainerStatus from runtime service failed" err="rpc error"
    time="2026-11-29T23:24:33Z" level=fatal msg="get the status of containers: get container status: rpc
        error: code = NotFound desc = an error occurred when try to find container \\"5d1c0a...\\": not found"

In Kubernetes a container that has ended is never started again: each start is a new one, and its log its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from triage.common.json import parse_json
from triage.engines import ENGINES
from triage.evidence.catalogue.containers import (
    LINES,
    LOG_LIMIT,
    LOG_TIMEOUT,
    Container,
    ContainerLog,
    moment,
    seconds_between,
)
from triage.evidence.catalogue.files import MAX_FILE, read_command, require_json
from triage.evidence.catalogue.inside import inside
from triage.evidence.discovery.environment import is_secret, relevant
from triage.evidence.model import MEBI, Query, Unanswered, failure_of
from triage.hosts.connection import Output

NEEDS_NODE = "root on the node"
NEEDS_CLUSTER = "a kubeconfig whose user may get pods"
NEEDS_EXEC = "root on the node; for kubectl a kubeconfig whose user may create pods/exec"
OWN_SHM = 64 * MEBI
"""Bytes of /dev/shm that a pod is given where it mounts nothing there."""
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_ID = re.compile(r"[0-9a-f]{12,64}")
_STATES = {"CONTAINER_RUNNING": "running", "CONTAINER_EXITED": "exited", "CONTAINER_CREATED": "created"}
_SIZES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}
_OF_THE_TOOL = re.compile(
    r"command terminated with exit code|.{0,80}level=|FATA\[|Defaulted container"
    r"|[IWEF]\d{4} [\d:.]+ +\d+ \w+\.go:"
)


@dataclass(frozen=True)
class NodeContainers(Query[tuple[Container, ...]]):
    """The containers of pods on a node, those of earlier starts too; `name` is `NAMESPACE/POD/CONTAINER`."""

    name: ClassVar[str] = "node-containers"
    purpose: ClassVar[str] = "read the command, state and result of the containers of pods on their node"
    privilege: ClassVar[str] = NEEDS_NODE
    absence: ClassVar[str] = "pods are plain processes of the node, and say that they run in a container"
    limit: ClassVar[int] = 64 * MEBI

    ids: tuple[str, ...]

    def argv(self) -> tuple[str, ...]:
        return ("crictl", "inspect", "--output", "json", *self.ids)

    def lesser(self) -> tuple[str, ...]:
        """Each by itself, where one has gone meanwhile."""
        each = 'for id do crictl inspect --output json "$id"; done; :'
        return ("sh", "-c", each, "sh", *self.ids) if len(self.ids) > 1 else ()

    def falls_short(self, output: Output) -> bool:
        return bool(output.code) and b"NotFound" in output.stderr

    def decode(self, output: Output) -> str:
        """One JSON object a line, with nothing but what is asked for: environments hold secrets."""
        told = tuple(_inspected(output.stdout))
        if not told:
            raise Unanswered(failure_of(output) if output.code else "crictl told of no container")
        try:
            return _lines(map(_of_node, told))
        except (TypeError, ValueError):
            raise Unanswered("crictl's answer makes no sense") from None

    def parse(self, text: str) -> tuple[Container, ...]:
        return _containers(text)


@dataclass(frozen=True)
class ClusterContainers(Query[tuple[Container, ...]]):
    """The containers of a cluster's pods, of one namespace or of all that may be listed.

    Both `id` and `name` are `NAMESPACE/POD/CONTAINER`. What an image starts by itself is not known to the
    cluster.
    """

    name: ClassVar[str] = "cluster-containers"
    purpose: ClassVar[str] = "read the command, state and last result of the containers of a cluster's pods"
    privilege: ClassVar[str] = NEEDS_CLUSTER
    absence: ClassVar[str] = "pods are found on their node alone"
    limit: ClassVar[int] = 64 * MEBI

    namespace: str = ""

    def argv(self) -> tuple[str, ...]:
        return (*_GET_PODS, *(("--namespace", self.namespace) if self.namespace else ("--all-namespaces",)))

    def lesser(self) -> tuple[str, ...]:
        """Ask for the context's own namespace, if not all may be listed."""
        return () if self.namespace else _GET_PODS

    def falls_short(self, output: Output) -> bool:
        return bool(output.code) and b"(Forbidden)" in output.stderr

    def decode(self, output: Output) -> str:
        super().decode(output)
        try:
            pods = map(_mapping, parse_json(output.stdout)["items"])
            return _lines(item for pod in pods for item in _of_cluster(pod))
        except (ValueError, TypeError, LookupError):
            why = "it is cut: name one NAMESPACE/POD" if output.cut else "it makes no sense"
            raise Unanswered(f"kubectl's answer cannot be used: {why}") from None

    def parse(self, text: str) -> tuple[Container, ...]:
        return _containers(text)


@dataclass(frozen=True)
class PodLog(ContainerLog):
    """The newest lines of the log of a pod's container; `previous`: of its start before the last."""

    name: ClassVar[str] = "pod-log"
    purpose: ClassVar[str] = "read what a service in a pod logged, and what it logged before it was restarted"
    privilege: ClassVar[str] = "a kubeconfig whose user may get pods/log"
    absence: ClassVar[str] = "only what the cluster says of the container's end is known"
    limit: ClassVar[int] = LOG_LIMIT
    timeout: ClassVar[float] = LOG_TIMEOUT

    previous: bool = False

    def argv(self) -> tuple[str, ...]:
        namespace, pod, container = self.id.split("/")
        where = ("--namespace", namespace, pod, "--container", container)
        which = ("--previous",) if self.previous else ()
        return ("kubectl", "logs", *where, "--timestamps", "--tail", str(LINES), *which)


@dataclass(frozen=True)
class ReadPodFile(Query[str]):
    """A text file in a running container of a pod. Bytes that are not UTF-8, and links, as in ReadFile."""

    name: ClassVar[str] = "read-pod-file"
    purpose: ClassVar[str] = "read installed source and a model's config.json in a pod, while it runs"
    privilege: ClassVar[str] = NEEDS_EXEC
    absence: ClassVar[str] = "what asks for the file is missing, and says so"
    limit: ClassVar[int] = MAX_FILE

    tool: Literal["crictl", "kubectl"]
    id: str
    path: str

    def argv(self) -> tuple[str, ...]:
        read = read_command(self.path)
        return (*inside(self.tool, self.id), *read)

    @property
    def is_source(self) -> bool:
        return self.path.endswith(".py")

    def decode(self, output: Output) -> str:
        if output.code != 0 and not output.cut:
            raise Unanswered(_said_inside(output))
        text = output.stdout.decode("utf-8", "surrogateescape")
        require_json(self.path, text)
        return text

    def parse(self, text: str) -> str:
        return text


_GET_PODS = ("kubectl", "get", "pods", "--output", "json", "--request-timeout", "25s")


def _said_inside(output: Output) -> str:
    """The last words of the command itself; the tool puts its own after them."""
    lines = output.stderr.decode("utf-8", "replace").strip().splitlines()
    own = [line for line in lines if not _OF_THE_TOOL.match(line)]
    return own[-1][:300] if own else failure_of(output)


def _inspected(data: bytes) -> Iterator[Mapping[str, Any]]:
    """The objects of a list, a single one, or several one after the other."""
    for text in (data, b"[" + data.replace(b"\n}\n{", b"\n},\n{") + b"]"):
        try:
            told = parse_json(text)
        except ValueError:
            continue
        yield from (item for item in (told if isinstance(told, list) else [told]) if isinstance(item, dict))
        return


def _lines(items: Iterable[dict[str, Any] | None]) -> str:
    return "".join(f"{json.dumps(item)}\n" for item in items if item)


def _of_node(item: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is needed of one container as crictl describes it."""
    status, info = _mapping(item.get("status")), _mapping(item.get("info"))
    labels, metadata = _mapping(status.get("labels")), _mapping(status.get("metadata"))
    spec = _mapping(info.get("runtimeSpec"))
    process = _mapping(spec.get("process"))
    image = _mapping(status.get("image"))
    state = _STATES.get(str(status.get("state")), "unknown")
    words = [labels.get(f"io.kubernetes.{word}") for word in ("pod.namespace", "pod.name", "container.name")]
    id = status.get("id")
    if not all(map(_is_name, words)) or not isinstance(id, str) or not _ID.fullmatch(id):
        return None
    pairs = (str(word).partition("=") for word in process.get("env") or ())
    mounts = {
        str(_mapping(mount).get("destination")): str(_mapping(mount).get("source"))
        for mount in spec.get("mounts") or ()
    }
    return {
        "id": id,
        "name": "/".join(map(str, words)),
        "image": image.get("userSpecifiedImage") or image.get("image"),
        "argv": _words(process.get("args")),
        "environment": relevant({name: value for name, equals, value in pairs if equals}),
        "directory": process.get("cwd"),
        "state": state,
        "pid": info.get("pid") if state == "running" else None,
        "code": status.get("exitCode"),
        "reason": status.get("reason"),
        "error": status.get("message"),
        "started": status.get("startedAt"),
        "ended": status.get("finishedAt"),
        "restarts": metadata.get("attempt"),
        "owner": info.get("sandboxID"),
        "shm": OWN_SHM if re.search(r"/sandboxes/|/userdata/shm", mounts.get("/dev/shm", "")) else 0,
    }


def _of_cluster(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What is needed of the containers of one pod as the cluster describes it."""
    metadata, spec, status = (_mapping(pod.get(name)) for name in ("metadata", "spec", "status"))
    statuses = {_mapping(each).get("name"): _mapping(each) for each in status.get("containerStatuses") or ()}
    owners = [_mapping(each) for each in metadata.get("ownerReferences") or ()]
    owner = next((each for each in owners if each.get("controller")), {})
    for container in map(_mapping, spec.get("containers") or ()):
        words = (metadata.get("namespace"), metadata.get("name"), container.get("name"))
        if not all(map(_is_name, words)):
            continue
        told = statuses.get(container.get("name"), {})
        pairs = {
            str(each.get("name")): each.get("value") for each in map(_mapping, container.get("env") or ())
        }
        plain = {
            name: value for name, value in pairs.items() if isinstance(value, str) and not is_secret(name)
        }
        words_of = (*_words(container.get("command")), *_words(container.get("args")))
        yield {
            "id": "/".join(map(str, words)),
            "name": "/".join(map(str, words)),
            "image": container.get("image"),
            "argv": [_expanded(word, plain) for word in words_of],
            "entrypoint": not container.get("command"),
            "environment": relevant(plain),
            "directory": container.get("workingDir"),
            **_state_in_cluster(told, status),
            "restarts": told.get("restartCount"),
            "shm": _shm_in_cluster(container, spec),
            "node": spec.get("nodeName"),
            "owner": f"{owner.get('kind')}/{owner.get('name')}" if owner else "",
            "created": metadata.get("creationTimestamp"),
        }


def _state_in_cluster(told: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state as `kubectl describe` tells it: what it does now, or else how it ended last."""
    states, last = _mapping(told.get("state")), _mapping(told.get("lastState"))
    running, waiting, ended = (_mapping(states.get(name)) for name in ("running", "waiting", "terminated"))
    ended = ended or _mapping(last.get("terminated"))
    end = {
        "code": ended.get("exitCode"),
        "reason": ended.get("reason"),
        "began": ended.get("startedAt"),
        "ended": ended.get("finishedAt"),
    }
    if running:
        return {"state": "running", "started": running.get("startedAt"), **end}
    unready = next((each for each in map(_mapping, pod.get("conditions") or ()) if each.get("message")), {})
    about = waiting or pod if waiting or pod.get("reason") else unready
    return {
        "state": waiting.get("reason") or ("exited" if ended else pod.get("reason") or pod.get("phase")),
        "error": about.get("message") or ended.get("message"),
        "started": ended.get("startedAt"),
        **end,
    }


def _shm_in_cluster(container: Mapping[str, Any], spec: Mapping[str, Any]) -> int:
    """Bytes of its own /dev/shm; 0 where the node's memory is the limit, or it is not its own."""
    mounts = {
        each.get("mountPath"): each.get("name") for each in map(_mapping, container.get("volumeMounts") or ())
    }
    if spec.get("hostIPC"):
        return 0
    if "/dev/shm" not in mounts:
        return OWN_SHM
    volumes = {each.get("name"): each for each in map(_mapping, spec.get("volumes") or ())}
    volume = _mapping(_mapping(volumes.get(mounts["/dev/shm"])).get("emptyDir"))
    size = re.fullmatch(r"([0-9]{1,18})(|k|M|G|[KMGT]i)", str(volume.get("sizeLimit")))
    return int(size[1]) * _SIZES[size[2]] if size else 0


def _containers(text: str) -> tuple[Container, ...]:
    try:
        return tuple(_container(parse_json(line)) for line in text.splitlines())
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError):
        raise Unanswered("the description of the containers is damaged") from None


def _container(item: Mapping[str, Any]) -> Container:
    started, ended = moment(item.get("started")), moment(item.get("ended"))
    image = str(item.get("image") or "")
    argv = tuple(str(word) for word in item.get("argv") or ())
    if item.get("entrypoint"):
        argv = (*_started_by(image), *argv)
    return Container(
        id=str(item["id"]),
        name=str(item["name"]),
        image=image,
        argv=argv,
        environment={str(name): str(value) for name, value in (item.get("environment") or {}).items()},
        working_directory=str(item.get("directory") or ""),
        state=str(item.get("state") or ""),
        pid=int(item.get("pid") or 0) or None,
        exit_code=int(item.get("code") or 0),
        out_of_memory=item.get("reason") == "OOMKilled",
        error=str(item.get("error") or "")[:1000],
        started=started,
        ended=ended,
        lasted=seconds_between(moment(item.get("began")) or started, ended),
        restarts=int(item.get("restarts") or 0),
        shm_size=int(item.get("shm") or 0),
        node=str(item.get("node") or ""),
        owner=str(item.get("owner") or ""),
        created=moment(item.get("created")),
    )


def _started_by(image: str) -> tuple[str, ...]:
    """What an engine's own image starts by itself, before the arguments; () for another image."""
    commands = (engine.command for engine in ENGINES.values() if engine.command.images)
    return next((each.image_command for each in commands if re.search(each.images, image)), ())


def _expanded(word: str, environment: Mapping[str, str]) -> str:
    """`$(NAME)` in a command, which the kubelet replaces; of a secret it stays."""
    return re.sub(
        r"\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)", lambda found: environment.get(found[1], found[0]), word
    )


def _words(value: object) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _is_name(word: object) -> bool:
    return isinstance(word, str) and _NAME.fullmatch(word) is not None
