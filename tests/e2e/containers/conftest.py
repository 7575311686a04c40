"""Boxes that run docker and podman, one that is a Kubernetes cluster, one with services started by hand."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.box import Bind, Box, rootfs
from tests.e2e.box import host as machine
from tests.e2e.box.rootfs import cache
from tests.e2e.containers.image import PACKAGES, archive, installed
from triage.evidence.catalogue.containers import Tool
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.hosts import Connection
from triage.verify.load.client import client_of
from triage.verify.service.containers import Inside

HERE = Path(__file__).parent
SUITE = "bookworm"
NEWER = "trixie"
DOCKER = {  # of two generations, which both run in a box of SUITE
    SUITE: ("docker.io", "docker-compose"),
    NEWER: (f"docker.io/{NEWER}", f"docker-cli/{NEWER}", f"docker-compose/{NEWER}"),
}
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CONTROLLERS = ("cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids")
Triage = Callable[..., Any]


@pytest.fixture(scope="package")
def place() -> Path:
    reason = machine.why_not()
    if not reason and (machine.suite() != SUITE or not (machine.CGROUPS / "memory").is_dir()):
        reason = f"containers in a box need {SUITE} and control groups of version 1"
    if reason:
        pytest.skip(reason)
    return cache().parent / "containers"


@pytest.fixture(scope="package")
def image(place: Path) -> Path:
    """The service's image, as an archive."""
    place.mkdir(parents=True, exist_ok=True)
    made, tree = place / "sglang.tar", rootfs(SUITE)
    made.write_bytes(archive(tree, "docker.io/lmsysorg/sglang:v0.5.11"))
    pause = archive(tree, "registry.local/pause:1", ["/usr/bin/sleep", "infinity"])
    (place / "pause.tar").write_bytes(pause)
    return made


@pytest.fixture(scope="package", params=DOCKER)
def docker(place: Path, image: Path, request: pytest.FixtureRequest) -> Iterator[Box]:
    suite: str = request.param
    packages = downloaded(place / f"docker-{suite}", *DOCKER[suite])
    binds = [Bind(packages), Bind(image, "/opt/sglang.tar"), Bind(HERE)]
    with swept("docker"), Box("dock", binds=binds, capabilities="CAP_NET_ADMIN") as box:
        box.run(["sh", str(HERE / "docker.sh"), str(packages)], timeout=300, check=True)
        yield box


@pytest.fixture(scope="package")
def podman(place: Path, image: Path) -> Iterator[Box]:
    packages = downloaded(place / "podman", "podman", "crun", "uidmap")
    binds = [Bind(packages), Bind(image, "/opt/sglang.tar"), Bind(HERE)]
    with swept("libpod_parent"), Box("pod", binds=binds) as box:
        box.run(["sh", str(HERE / "podman.sh"), str(packages)], timeout=300, check=True)
        yield box


@pytest.fixture(scope="package")
def node(place: Path, image: Path) -> Iterator[Box]:
    """A cluster of one node; `kubectl` below `place` reaches it."""
    packages = downloaded(place / "node", "containerd", "etcd-server")
    built = place / "kubernetes"
    subprocess.run(["sh", str(HERE / "build.sh"), str(built), machine.mirror(SUITE)], check=True)
    binds = [Bind(packages), Bind(built / "bin"), Bind(HERE)]
    binds += [Bind(image, "/opt/sglang.tar"), Bind(place / "pause.tar", "/opt/pause.tar")]
    with swept("kubepods", "k8s.io"), Box("gpu01", binds=binds) as box:
        script = ["sh", str(HERE / "node.sh"), box.address, str(built / "bin"), str(packages)]
        box.run(script, timeout=300, check=True)
        (box.directory / "kubeconfig").write_text(box.run(["cat", "/root/.kube/config"], check=True).stdout)
        until(lambda: "gpu01" in kubectl(place, box, "get", "nodes"))
        apply = ("apply", "--validate=false", "--filename", str(HERE / "manifests.yaml"))
        until(lambda: "pod/absent" in kubectl(place, box, *apply))  # not before its account is there
        until(lambda: " 2 " in kubectl(place, box, "get", "pods", "--namespace", "llm"), 180)
        yield box


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What of the service is installed with Python's packages."""
    service = tmp_path_factory.mktemp("service")
    for path, text in installed().items():
        if path.startswith(PACKAGES):
            file = service / Path(path).relative_to(PACKAGES)
            file.parent.mkdir(exist_ok=True)
            file.write_text(text)
    return service


@pytest.fixture(scope="package")
def processes(place: Path, service: Path) -> Iterator[Box]:
    packages = downloaded(place / "processes", "supervisor", "tmux")
    with Box("hand", binds=[Bind(packages), Bind(service), Bind(HERE)]) as box:
        box.run(["sh", str(HERE / "processes.sh"), str(packages), str(service)], timeout=300, check=True)
        yield box


@pytest.fixture(scope="package")
def rotating(place: Path, service: Path) -> Iterator[Box]:
    packages = downloaded(place / "rotating", "logrotate", "supervisor", "xz-utils", "zstd")
    with Box("rotates", binds=[Bind(packages), Bind(service), Bind(HERE)]) as box:
        box.run(["sh", str(HERE / "rotating.sh"), str(packages), str(service)], timeout=300, check=True)
        yield box


@pytest.fixture
def triage(tmp_path: Path) -> Triage:
    """Runs a command of triage against a box, and gives what it says as JSON."""

    def run(box: Box, *arguments: str, code: int = 0, path: Path | None = None, context: str = "") -> Any:
        environment = {
            **os.environ,
            "TRIAGE_SSH_CONFIG": str(box.ssh_config()),
            "XDG_STATE_HOME": str(tmp_path),
        }
        if path:
            environment |= {
                "PATH": f"{path}:{os.environ['PATH']}",
                "KUBECONFIG": str(kubeconfig(box, context)),
            }
        argv = [sys.executable, "-m", "triage", *arguments, "--format", "json"]
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        return json.loads(done.stdout) if done.stdout.startswith("{") else done.stderr

    return run


def ends_with_its_client(box: Box, connection: Connection, tool: Tool, container: str) -> None:
    """What triage runs in a container is gone once the tool that has started it is."""
    place = Inside(connection, tool, lambda: container, "python3")
    counts = "import sys; print(len(sys.stdin.read())); sys.exit(3)"
    counted = place.run(("python3", "-c", counts), stdin=b"x" * 300_000)
    assert (counted.code, counted.stdout) == (1 if tool == "crictl" else 3, b"300000\n")
    waits = ("python3", "-c", "import sys, time; sys.stdin.read(); time.sleep(600.25)")

    def lives() -> bool:
        return box.run(["pgrep", "--full", "--count", "[s]leep.600.25"]).stdout.strip() != "0"

    begun = time.monotonic()
    with ThreadPoolExecutor(1) as aside:
        cut = aside.submit(place.run, waits, stdin=b"x", timeout=6)
        until(lives, 5)
        assert cut.result().cut == "time"
    until(lambda: not lives(), 10)
    assert time.monotonic() - begun < 60


def knows_its_own_listener(box: Box, connection: Connection, unit: str) -> None:
    """On its host's network too a service is not mistaken for another that has its port."""
    (found,) = discover(LiveEvidence(connection), unit)
    own = client_of(connection, found).health(None)
    assert (own.status, own.foreign) == (200, "")
    box.run("systemd-run --quiet --unit another python3 -m http.server 31799", check=True)
    other = client_of(connection, replace(found, port=31799))
    until(lambda: other.health(None).status == 404)
    assert other.health(None).foreign == "a process outside of its container"
    box.run("systemctl stop another", check=True)


def downloaded(place: Path, *packages: str) -> Path:
    """A directory with Debian packages, and with what they need that a box lacks."""
    if not list(place.glob("*.deb")):
        (place / "lists" / "partial").mkdir(parents=True, exist_ok=True)
        (place / "partial").mkdir(exist_ok=True)
        sources = place / "sources.list"
        suites = (f"deb [signed-by={KEYRING}] {machine.mirror(suite)} {suite} main\n" for suite in DOCKER)
        sources.write_text("".join(suites))
        options = {
            "Dir::Etc::sourcelist": sources,
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": place / "lists",
            "Dir::State::status": rootfs(SUITE) / "var/lib/dpkg/status",
            "Dir::Cache::archives": place,
            "Dir::Cache::pkgcache": "",
            "Dir::Cache::srcpkgcache": "",
            "APT::Default-Release": SUITE,
            "APT::Sandbox::User": "root",
            "Debug::NoLocking": "1",
        }
        flags = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        subprocess.run(["apt-get", "-qq", *flags, "update"], check=True)
        flags += ["--download-only", "--no-install-recommends", "--yes"]
        subprocess.run(["apt-get", "-qq", *flags, "install", *packages], check=True)
        shutil.rmtree(place / "lists")
    return place


@contextlib.contextmanager
def swept(*names: str) -> Iterator[None]:
    """Afterwards the control groups that a runtime has made are gone: a box shares this machine's."""
    try:
        yield
    finally:
        for name in names:
            for top in (machine.CGROUPS / controller / name for controller in CONTROLLERS):
                for group in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                    group.rmdir()
                if top.is_dir():
                    top.rmdir()


def kubeconfig(box: Box, context: str = "") -> Path:
    told = (box.directory / "kubeconfig").read_text()
    made = box.directory / f"kubeconfig-{context or 'all'}"
    made.write_text(told.replace("current-context: all", f"current-context: {context or 'all'}"))
    return made


def kubectl(place: Path, box: Box, *words: str) -> str:
    argv = [str(place / "kubernetes" / "client" / "kubectl"), "--kubeconfig", str(kubeconfig(box)), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60).stdout


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1)
