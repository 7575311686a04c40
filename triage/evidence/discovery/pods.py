"""Pods that are reached from another machine than their node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from triage.evidence.catalogue import ClusterContainers, PodLog, ReadPodFile, TreeInside
from triage.evidence.model import Answer, Deployment, Evidence, Origin, Query

T = TypeVar("T")
OF_THE_CLUSTER = (ClusterContainers, PodLog, ReadPodFile, TreeInside)


class FromAfar:
    """What a machine with kubectl can tell of a pod. Of itself it is asked nothing: its memory, GPUs and
    kernel log are not those that the pod has."""

    def __init__(self, evidence: Evidence, node: str) -> None:
        self._evidence = evidence
        self._node = node

    @property
    def origin(self) -> Origin:
        return self._evidence.origin

    def foresee(self, queries: Sequence[Query[Any]]) -> None:
        """Nothing is gained: each is asked through kubectl."""

    def ask(self, query: Query[T]) -> Answer[T]:
        if type(query) in OF_THE_CLUSTER:
            return self._evidence.ask(query)
        node = f"its node, {self._node}" if self._node else "a node of the cluster"
        return Answer(query, None, f"the pod runs on {node}: diagnose it there, with crictl")


def where_it_runs(evidence: Evidence, deployment: Deployment) -> Evidence:
    """Evidence of the machine that a deployment runs on."""
    return FromAfar(evidence, deployment.node) if deployment.manager == "kubectl" else evidence
