"""The service of a deployment: what its manager is asked through."""

from __future__ import annotations

from triage.evidence.discovery.containers import container_of
from triage.evidence.model import Deployment
from triage.hosts.connection import Connection
from triage.verify.service.containers import ContainerService
from triage.verify.service.model import Service
from triage.verify.service.pods import PodService, pod_of
from triage.verify.service.systemd import SystemdService


def service_of(connection: Connection, deployment: Deployment) -> Service | None:
    """What restarts a deployment; None for a process of which nobody knows how it was started."""
    container = container_of(deployment)
    if container is not None:
        tool, id = container
        if tool == "crictl" or tool == "kubectl":
            return PodService(connection, pod_of(connection, tool, id), deployment.name)
        return ContainerService(connection, tool, id, deployment.name)
    own = deployment.manager == "systemd-user"
    if not deployment.unit:
        return None
    return SystemdService(connection, deployment.unit, own, deployment.log_namespace)
