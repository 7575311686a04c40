from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from triage.evidence.model import Deployment
from triage.hosts.local import LocalConnection
from triage.verify.load.client import Client
from triage.verify.service.process import ProcessService

SERVER = Path(__file__).with_name("server.py")


@dataclass(frozen=True)
class Engine:
    """A stand-in engine that can be started on this machine, its deployment and its client."""

    service: ProcessService
    deployment: Deployment
    client: Client
    port: int


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Callable[[str, str], Engine]]:
    """`engine(start, mode)`: see tests/verify/server.py. What it started is stopped afterwards."""
    made: list[Engine] = []
    connection = LocalConnection()

    def make(start: str = "ready", mode: str = "ok") -> Engine:
        port = free_port()
        argv = (sys.executable, str(SERVER), str(port), mode, start)
        service = ProcessService(connection, argv, str(tmp_path / "log"), str(tmp_path / "pid"))
        deployment = Deployment("engine", engine="sglang", python=sys.executable, port=port)
        client = Client(connection, sys.executable, "127.0.0.1", port, timeout=10)
        made.append(Engine(service, deployment, client, port))
        return made[-1]

    yield make
    for one in made:
        one.service.stop()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
