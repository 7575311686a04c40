"""A service in a Kubernetes pod: its state, its restart by whoever owns it, its log.

A container of a pod is never started again: on its node the kubelet makes a new one in the same pod, and in
the cluster the pod's controller makes a new pod. What is asked and what runs inside is always the newest.

# crictl ps --all --no-trunc --quiet --latest --label io.kubernetes.pod.name=kimi-0 ...
41a906fa14a2531ea74792155fe0a6fba7edb1c0d86b7c61d473cf465e4bf847
# crictl inspectp 7aedf119906d...
{"status": {"labels": {"app": "kimi", "pod-template-hash": "58976ff948", ...}, ...}, ...}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, Protocol

from triage.common.commands import command
from triage.common.errors import RefusedError, UnreachableError
from triage.common.json import parse_json
from triage.evidence.catalogue import ClusterContainers, Containers, NodeContainers, Processes
from triage.evidence.catalogue.containers import Container
from triage.evidence.discovery.containers import has_kubelet
from triage.evidence.model import Query, T, Unanswered
from triage.hosts.connection import DEFAULT_LIMIT, DEFAULT_TIMEOUT, Connection, Output, reason_of
from triage.hosts.typed_command import there
from triage.verify.service.model import ServiceState, refused, text_of

STOP_GRACE = 30  # seconds between SIGTERM and SIGKILL on a node; in the cluster the pod says
ALWAYS = ("pod-template-hash", "controller-revision-hash")
"""Labels of pods that a Deployment, StatefulSet or DaemonSet has made: those are always started again."""
COMING = ("ContainerCreating", "PodInitializing", "Pending", "created")


class Pod(Protocol):
    """A container of a pod, and whatever has taken its place since."""

    @property
    def tool(self) -> Literal["crictl", "kubectl"]: ...

    def newest(self) -> Container | None:
        """None between two of them. Raises UnreachableError."""
        ...

    def restart(self) -> None: ...


class OnNode:
    """Found through crictl: the pod stays, the kubelet makes its containers anew."""

    tool: Final = "crictl"

    def __init__(self, connection: Connection, id: str) -> None:
        self._connection = connection
        known = _asked(connection, NodeContainers((id,)))
        self._name = _only(known, id, connection).name

    def newest(self) -> Container | None:
        words = zip(("pod.namespace", "pod.name", "container.name"), self._name.split("/"), strict=True)
        labels = (word for key, value in words for word in ("--label", f"io.kubernetes.{key}={value}"))
        argv = ("crictl", "ps", "--all", "--no-trunc", "--quiet", "--latest", *labels)
        ids = Containers("crictl").parse(text_of(_run(self._connection, "look for", self._name, argv).stdout))
        known = _asked(self._connection, NodeContainers(ids[:1])) if ids else ()
        return next(iter(known), None)

    def restart(self) -> None:
        what = ("restart", f"{self._name} on {self._connection.name}")
        if not has_kubelet([each.args for each in _asked(self._connection, Processes())]):
            raise RefusedError(
                *what,
                "no kubelet runs there that would start it again",
                there(self._connection.name, "systemctl status kubelet"),
            )
        found = self.newest()
        if found is None or not self._is_kept(found):
            why = "no Deployment, StatefulSet or DaemonSet has made its pod: the kubelet may leave it stopped"
            raise RefusedError(*what, why, "repeat with --no-restart, or from where kubectl works")
        if found.state == "running":
            stop = ("crictl", "stop", "--timeout", str(STOP_GRACE), found.id)
            _run(self._connection, "restart", self._name, stop, timeout=STOP_GRACE + 30)

    def _is_kept(self, container: Container) -> bool:
        output = _run(
            self._connection, "ask for the pod of", self._name, ("crictl", "inspectp", container.owner)
        )
        try:
            return any(label in parse_json(output.stdout)["status"]["labels"] for label in ALWAYS)
        except (ValueError, LookupError, TypeError):
            return False


class InCluster:
    """Found through kubectl: its controller makes the pod anew, with another name or with the same."""

    tool: Final = "kubectl"

    def __init__(self, connection: Connection, id: str) -> None:
        self._connection = connection
        self._id = id
        self._owner = _only(self._all(), id, connection).owner

    def newest(self) -> Container | None:
        alike = [each for each in self._all() if self._is_alike(each)]
        own = (each for each in alike if each.id == self._id)
        return next(own, None) or max(alike, key=lambda each: each.created, default=None)

    def restart(self) -> None:
        found = self.newest()
        what = ("restart", f"{found.id if found else self._id} on {self._connection.name}")
        kind = self._owner.partition("/")[0]
        if kind in ("", "Node", "Job"):
            whose = {"": "no controller owns it", "Node": "it is a static pod of its node"}.get(
                kind, "it is a Job's"
            )
            next = "repeat with --no-restart, or apply its manifest anew by hand"
            raise RefusedError(*what, f"{whose}, so that nothing may start it again once it is deleted", next)
        if found is not None:
            namespace, pod, _ = found.id.split("/")
            # without waiting: requests may have minutes to end
            delete = ("kubectl", "delete", "pod", "--wait=false", "--namespace", namespace, pod)
            _run(self._connection, "restart", found.id, delete)

    def _all(self) -> tuple[Container, ...]:
        return _asked(self._connection, ClusterContainers(self._id.partition("/")[0]))

    def _is_alike(self, container: Container) -> bool:
        if self._owner.startswith("StatefulSet/"):  # whose next pod has the same name
            return container.id == self._id
        made_by = self._owner and container.owner == self._owner
        same = container.id.rpartition("/")[2] == self._id.rpartition("/")[2]
        return container.id == self._id or bool(made_by and same)


class PodService:
    """A Service. A run of it is named by its pod and the time when its container was started."""

    def __init__(self, connection: Connection, pod: Pod, name: str) -> None:
        self.name = name
        self._connection = connection
        self._pod = pod

    def state(self) -> ServiceState:
        found = self._pod.newest()
        if found is None:
            return ServiceState("activating", "", None, "there is no pod of it now", pending=True)
        running = found.state == "running"
        coming = found.state in COMING
        ended = f"exit status {found.exit_code}" if found.started and not running else ""
        memory = "out of memory" if found.out_of_memory and not running else ""
        return ServiceState(
            active="active" if running else "activating" if coming else "failed",
            run=f"{found.id} {found.started}" if found.started else "",
            pid=found.pid,
            detail=", ".join(filter(None, (found.state, ended, memory, found.error))),
            pending=coming,
            restarting=not running and not coming,
        )

    def restart(self) -> None:
        self._pod.restart()

    def follow(self, run: str, timeout: float) -> Iterator[bytes]:
        id = run.partition(" ")[0]
        argv: tuple[str, ...] = ("crictl", "logs", "--follow", id)
        if self._pod.tool == "kubectl":
            namespace, pod, container = id.split("/")
            argv = ("kubectl", "logs", "--follow", "--namespace", namespace, pod, "--container", container)
        return self._connection.stream(("sh", "-c", 'exec "$@" 2>&1', "sh", *argv), timeout=timeout)


def pod_of(connection: Connection, tool: Literal["crictl", "kubectl"], id: str) -> Pod:
    return OnNode(connection, id) if tool == "crictl" else InCluster(connection, id)


def _only(found: Sequence[Container], id: str, connection: Connection) -> Container:
    for each in found:
        if each.id == id:
            return each
    raise UnreachableError(
        "look for", f"{id} on {connection.name}", "it is gone since", command("diagnose", connection.name)
    )


def _asked(connection: Connection, query: Query[T]) -> T:
    output = _run(connection, "ask for", query.name, query.argv(), query.timeout, query.limit)
    try:
        return query.parse(query.decode(output))
    except Unanswered as reason:
        next = command("policy")
        raise UnreachableError("ask for", f"{query.name} on {connection.name}", str(reason), next) from None


def _run(
    connection: Connection,
    doing: str,
    to: str,
    argv: Sequence[str],
    timeout: float = DEFAULT_TIMEOUT,
    limit: int = DEFAULT_LIMIT,
) -> Output:
    output = connection.run(argv, timeout=timeout, limit=limit)
    if output.code == 0:
        return output
    what = (doing, f"{to} on {connection.name}", reason_of(output))
    if refused(output) or b"(Forbidden)" in output.stderr:
        raise RefusedError(*what, "repeat it with --become, or as a user of the cluster who may")
    raise UnreachableError(*what, command("policy"))
