"""Services in containers, with the answers that podman gave of two of them."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost, ps_text, unit_text
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.catalogue.containers import Container, PodmanStorage
from triage.evidence.discovery.containers import container_deployment
from triage.evidence.discovery.deployments import discover
from triage.evidence.log_sources import log_sources
from triage.evidence.model import Deployment, Unanswered
from triage.patching.evidence_tree import EvidenceTree
from triage.rules.checkpoint import Checkpoint
from triage.workflows import diagnose
from triage.workflows.patch_target import find_target
from triage.workflows.unit_record import Restarts, restarts_of

RECORDED = Path(__file__).parent / "catalogue" / "recorded"
ID = "74d579caf1f177356cb985ced8cd073a7f8e7f81173ef19c994841628082a26e"
SERVE = "/bin/sh /opt/venv/bin/python -m sglang.launch_server --model-path /srv/m --pp-size 8"
FILE = "/usr/local/lib/python3.12/dist-packages/sglang/srt/managers/scheduler.py"
LOG = f"""\
2026-11-29T20:31:04.734198000Z Traceback (most recent call last):
2026-11-29T20:31:04.734339000Z   File "{FILE}", line 10, in run
2026-11-29T20:31:04.734371000Z     x()
2026-11-29T20:31:04.734399000Z IndexError: list index out of range
"""


@pytest.fixture
def podman(host: ScriptedHost) -> ScriptedHost:
    host.commands |= {
        "ps": ps_text(
            (1, 0, "root", "/sbin/init"),
            (1019, 1, "root", "/usr/bin/conmon --api-version 1 -c 277bc -n live"),
            (1021, 1019, "root", SERVE),
        ),
        "systemctl": unit_text("ssh.service"),
        "podman ps": (RECORDED / "containers-podman").read_bytes(),
        "podman inspect": (RECORDED / "container-details-podman").read_bytes(),
        f"podman logs --timestamps --tail 200000 {ID}": LOG,
    }
    host.files["/proc/1021/cgroup"] = "0::/system.slice/ssh.service\n"
    return host


def test_ended_and_running_containers_are_found_once(podman: ScriptedHost) -> None:
    ended, running = discover(podman.evidence)
    assert (ended.name, ended.manager, ended.container, ended.unit) == ("kimi", "podman", ID, "")
    assert (ended.engine, ended.model, str(ended.layout)) == ("sglang", "/srv/a model", "tp2")
    assert (ended.state, ended.result, ended.exit_status) == ("exited", "exit-code", "3")
    assert ended.python == "/opt/venv/bin/python"
    assert ended.environment["NCCL_DEBUG"] == "WARN"
    assert (running.name, running.state, running.result, running.main_pid) == ("live", "running", "", 1021)
    assert not [argv for argv in podman.asked if argv[0] in ("docker", "env")]


def test_ended_containers_are_found_when_nothing_of_podman_runs(podman: ScriptedHost) -> None:
    podman.commands["ps"] = ps_text((1, 0, "root", "/sbin/init"))
    with pytest.raises(UnreachableError):
        discover(podman.evidence)
    assert ("podman", "ps") not in [argv[:2] for argv in podman.asked]  # which would make its directory
    podman.commands[" ".join(PodmanStorage().argv())] = "/var/lib/containers/storage\n"
    assert "kimi" in [each.name for each in discover(podman.evidence)]


def test_a_container_by_name(podman: ScriptedHost) -> None:
    for name in ("kimi", ID):
        assert [each.name for each in discover(podman.evidence, name)] == ["kimi"]


def test_its_log_its_fault_and_its_own_files(podman: ScriptedHost) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("scheduler.py")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"x()\n"))
    podman.commands[f"podman cp {ID}:{FILE}"] = made.getvalue()
    evidence = podman.evidence
    report = diagnose.diagnose(evidence, diagnose.load_knowledge())
    (finding,) = report.incidents
    assert finding.incident.initiator is not None
    assert finding.incident.initiator.type == "IndexError"
    assert report.deployment.package_root == FILE.partition("/srt")[0]
    assert report.deployment.disagreements == ()
    tree = EvidenceTree(evidence, report.deployment.package_root, ("podman", ID))
    source = tree.read("sglang.srt.managers.scheduler")
    assert source is not None
    assert source.data == b"x()\n"
    assert not [argv for argv in podman.asked if argv[0] != "podman" and "dist-packages" in argv[-1]]


def test_its_models_configuration_is_that_in_the_container(podman: ScriptedHost) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        info = tarfile.TarInfo("config.json")
        info.size = 25
        archive.addfile(info, io.BytesIO(b'{"num_hidden_layers": 61}'))
    podman.commands[f"podman cp {ID}:/srv/m/config.json"] = made.getvalue()
    podman.files["/srv/m/config.json"] = '{"num_hidden_layers": 1}'
    found = Checkpoint(podman.evidence, "/srv/m", {}, container=("podman", ID))
    assert found.config() == {"num_hidden_layers": 61}
    with pytest.raises(Unanswered, match="of the container"):
        found.weights()


def test_what_is_not_in_the_container_is_absent(podman: ScriptedHost) -> None:
    words = b'Error: "/x/srt/b.py" could not be found on container kimi: No such file or directory\n'
    from triage.hosts import Output

    podman.commands[f"podman cp {ID}:/x/sglang/srt"] = Output(125, b"", words)
    assert EvidenceTree(podman.evidence, "/x/sglang", ("podman", ID)).read("sglang.srt.b") is None


def test_a_container_without_a_log_is_not_healthy(podman: ScriptedHost) -> None:
    with pytest.raises(UnreachableError, match="container kimi"):
        log_sources(podman.evidence, Deployment("kimi", manager="podman", container="1" * 64))


def test_a_container_is_not_patched(podman: ScriptedHost) -> None:
    with pytest.raises(RefusedError, match="gone with it;") as refused:
        find_target(podman, (), unit="kimi")
    assert str(refused.value.next) == "triage patch gpu01 --unit kimi --export dockerfile"


@pytest.mark.parametrize(
    ("code", "out_of_memory", "result"),
    [(0, False, "success"), (3, False, "exit-code"), (137, False, "signal"), (137, True, "oom-kill"),
     (143, False, "success"), (130, False, "success")],
)  # fmt: skip
def test_how_a_container_ended_in_the_words_of_systemd(code: int, out_of_memory: bool, result: str) -> None:
    """One that is stopped ends by SIGTERM, and has not failed."""
    ended = Container(
        *(ID, "kimi", "image", ("vllm", "serve", "m")),
        state="exited",
        started="2026-11-29T20:31:04+00:00",
        exit_code=code,
        out_of_memory=out_of_memory,
    )
    assert container_deployment("docker", ended).result == result
    never = replace(ended, started="", state="created")
    assert container_deployment("docker", never).result == ""


@pytest.mark.parametrize(
    ("created", "state", "told"),
    [
        ("00:03:55", "restarting", Restarts(7, "", "2026-11-30T00:04:07+00:00", "exit-code", True)),
        ("00:03:55", "running", Restarts(7, "", "2026-11-30T00:04:07+00:00", "", True)),
        ("08:03:55", "running", Restarts(7, "", "2026-11-30T16:04:07+00:00", "", False)),
    ],
)
def test_a_crash_loop_as_docker_tells_it(
    host: ScriptedHost, created: str, state: str, told: Restarts
) -> None:
    """docker forgets how a container ended when it starts it again, and does so at once after a long run."""
    containers = json.loads((RECORDED / "container-details-docker").read_text())
    (loops,) = (each for each in containers if each["Name"] == "/loops")
    loops["State"]["Status"] = state
    loops["State"]["FinishedAt"] = f"{told.last[:19]}.645433256Z"
    loops["Created"] = f"2026-11-30T{created}.240336118Z"
    host.commands |= {
        "ps": ps_text((1, 0, "root", "/usr/sbin/dockerd")),
        "systemctl": unit_text("ssh.service"),
        "docker ps": (RECORDED / "containers-docker").read_bytes(),
        "docker inspect": json.dumps(containers),
    }
    evidence = host.evidence
    assert restarts_of(evidence, discover(evidence, "loops")[0]) == told
