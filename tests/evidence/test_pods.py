"""Services in Kubernetes pods, on their node and from a machine with kubectl, by recorded answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evidence.conftest import ScriptedHost, ps_text, tree_text, unit_text
from triage.common.errors import RefusedError, UnreachableError, UsageError
from triage.evidence.catalogue import GpuInventory, KernelLog, MemoryInfo
from triage.evidence.discovery.deployments import discover
from triage.evidence.log_sources import log_sources
from triage.hosts import Output
from triage.report import text
from triage.workflows import diagnose
from triage.workflows.patch_target import find_target
from triage.workflows.unit_record import Restarts, restarts_of

RECORDED = Path(__file__).parent / "catalogue" / "recorded"
IDS = (RECORDED / "containers-crictl").read_text().split()
KIMI, REVIVED = "llm/kimi-58976ff948-wfs4x", "llm/revived-0"
FILE = "/usr/local/lib/python3.11/dist-packages/sglang/srt/managers/scheduler.py"
LOG = f"""\
2026-11-29T23:24:09.734198000+02:00 Traceback (most recent call last):
2026-11-29T23:24:09.734339000+02:00   File "{FILE}", line 10, in run
2026-11-29T23:24:09.734371000+02:00     x()
2026-11-29T23:24:09.734399000+02:00 IndexError: list index out of range
"""
WELL = "2026-11-29T23:25:09.734399000+02:00 The server is fired up and ready to roll!\n"


@pytest.fixture
def node(host: ScriptedHost) -> ScriptedHost:
    serve = "python3 -m sglang.launch_server --model-path /models/kimi --port 31779"
    host.commands |= {
        "ps": ps_text(
            (1, 0, "root", "/sbin/init"),
            (445, 1, "root", "/usr/bin/kubelet --hostname-override=gpu01"),
            (1457, 1, "root", "/usr/bin/containerd-shim-runc-v2 -namespace k8s.io -id 7aed"),
            (2652, 1457, "root", serve),
        ),
        "systemctl": unit_text("kubelet.service"),
        "crictl ps": (RECORDED / "containers-crictl").read_bytes(),
        "crictl inspect": (RECORDED / "node-containers").read_bytes(),
        "crictl logs": LOG,
    }
    host.files["/proc/2652/cgroup"] = "0::/kubepods/besteffort/pod0b6b/41a906fa14a2\n"
    return host


@pytest.fixture
def laptop(host: ScriptedHost) -> ScriptedHost:
    host.commands |= {
        "ps": ps_text((1, 0, "root", "/sbin/init")),
        "systemctl": unit_text("ssh.service"),
        "kubectl get pods": (RECORDED / "cluster-containers").read_bytes(),
        "kubectl logs": LOG,
    }
    return host


def test_the_services_of_a_node_are_found_once_those_that_fail_first(node: ScriptedHost) -> None:
    found = discover(node.evidence)
    assert [each.name.partition("-")[0].removeprefix("llm/") for each in found] == [
        *("revived", "kimi", "greedy", "serves"),
    ]
    revived, kimi, greedy, _ = found
    assert (kimi.manager, kimi.engine, kimi.model, str(kimi.layout)) == (
        "crictl",
        "sglang",
        "/models/kimi",
        "pp8",
    )
    assert (kimi.state, kimi.result, kimi.exit_status, kimi.restarts) == ("exited", "exit-code", "1", 4)
    assert (greedy.result, greedy.exit_status) == ("oom-kill", "137")
    assert (revived.state, revived.port, revived.main_pid) == ("running", 31779, 2652)
    assert not [argv for argv in node.asked if argv[0] == "kubectl"]


def test_a_pod_by_its_names(node: ScriptedHost) -> None:
    for name in (KIMI, f"{KIMI}/engine", KIMI.partition("/")[2], "llm/kimi", "kimi"):
        assert discover(node.evidence, name)[0].name == KIMI
    assert discover(node.evidence, "serves")[0].argv[1] == "-m"  # what serves in it, not what is beside that
    (sidecar,) = discover(node.evidence, "llm/serves-f9c756f6b-m9v5j/sidecar")
    assert sidecar.engine == ""


def test_a_name_that_several_pods_have_lists_them(node: ScriptedHost) -> None:
    told = (
        (RECORDED / "node-containers").read_text().replace("greedy-55998bdc7c-8g4k8", "kimi-58976ff948-bbbbb")
    )
    node.commands["crictl inspect"] = told
    with pytest.raises(UsageError) as error:
        discover(node.evidence, "llm/kimi")
    assert f"{KIMI} (exited)" in error.value.happened
    assert "llm/kimi-58976ff948-bbbbb (exited)" in error.value.happened
    assert str(error.value.next) == f"triage diagnose gpu01 --unit {KIMI}"


@pytest.mark.parametrize(
    ("pod", "makers"),
    [
        ("kimi-58976ff948-8g4k8", "kimi"),  # of a Deployment
        ("kimi-eagle-0", "kimi-eagle"),  # of a StatefulSet
        ("kimi-m9v5j", "kimi"),  # of a DaemonSet
        ("kimi-0-1", "kimi"),  # of a LeaderWorkerSet
    ],
)
def test_the_name_of_a_maker_means_no_other(node: ScriptedHost, pod: str, makers: str) -> None:
    told = (RECORDED / "node-containers").read_text()
    node.commands["crictl inspect"] = told.replace(KIMI.partition("/")[2], pod)
    assert discover(node.evidence, makers)[0].name == f"llm/{pod}"
    for other in ("kim", "kimi-e", "kimi" if "eagle" in pod else "kimi-eagle"):
        with pytest.raises(UsageError, match="no pod is known by that"):
            discover(node.evidence, f"llm/{other}")


def test_the_log_of_the_start_that_failed_comes_first(node: ScriptedHost) -> None:
    last, before = IDS[0], IDS[2]
    node.commands |= {
        f"crictl logs --timestamps --tail 200000 {last}": WELL,
        f"crictl logs --timestamps --tail 200000 {before}": LOG,
    }
    evidence = node.evidence
    (deployment,) = discover(evidence, "revived")
    sources = log_sources(evidence, deployment)
    assert [source.data[:] for source in sources[:2]] == [LOG.encode(), WELL.encode()]
    kernel = next(argv for argv in node.asked if "--dmesg" in argv or "_TRANSPORT=kernel" in " ".join(argv))
    assert "@1795987419" in " ".join(kernel)  # of the node's zone, half a minute before
    report = diagnose.diagnose(evidence, diagnose.load_knowledge(), "revived")
    assert [
        finding.incident.initiator.type for finding in report.incidents if finding.incident.initiator
    ] == ["IndexError"]


def test_a_death_that_no_log_explains_is_told_by_the_kubelets_record(node: ScriptedHost) -> None:
    node.commands["crictl logs"] = ""
    report = diagnose.diagnose(node.evidence, diagnose.load_knowledge(), "greedy")
    (finding,) = report.incidents
    assert finding.incident.initiator is not None
    assert finding.incident.initiator.type == "oom-kill"
    assert "status=9/KILL" in finding.incident.initiator.message
    assert finding.verdict.category == "host-oom"
    assert report.restarts is not None
    assert (report.restarts.count, report.restarts.result) == (4, "oom-kill")
    (kernel,) = [" ".join(argv) for argv in node.asked if "_TRANSPORT=kernel" in argv]
    assert "--since=@1795994606 --until=@1795994667" in kernel  # half a minute around that start


def restarts(host: ScriptedHost, unit: str) -> Restarts:
    found = restarts_of(host.evidence, discover(host.evidence, unit)[0])
    assert found is not None
    return found


KIMI_FELL = Restarts(4, "", "2026-11-29T23:24:08+00:00", "exit-code", True)
GREEDY_FELL = Restarts(4, "", "2026-11-29T23:23:57+00:00", "oom-kill", True)


def test_a_crash_loop_on_a_node_where_the_container_has_just_ended(node: ScriptedHost) -> None:
    assert (restarts(node, "kimi"), restarts(node, "greedy")) == (KIMI_FELL, GREEDY_FELL)
    report = diagnose.diagnose(node.evidence, diagnose.load_knowledge(), "kimi")
    (told,) = (line.plain for line in text.lines(report) if line.plain.startswith("restart"))
    assert told.startswith(
        "restarting in a loop: 4 times, last failure 2026-11-29T23:24:08+00:00 (exit-code)"
    )


def test_a_crash_loop_as_the_cluster_tells_it_before_it_says_so_and_after(laptop: ScriptedHost) -> None:
    assert (restarts(laptop, "llm/kimi"), restarts(laptop, "llm/greedy")) == (KIMI_FELL, GREEDY_FELL)
    pods = json.loads((RECORDED / "cluster-containers").read_text())
    for pod in pods["items"]:
        for told in pod["status"]["containerStatuses"]:
            told["state"] = told["lastState"] or told["state"]  # as it is before the kubelet backs off
    laptop.commands["kubectl get pods"] = json.dumps(pods)
    assert (restarts(laptop, "llm/kimi"), restarts(laptop, "llm/greedy")) == (KIMI_FELL, GREEDY_FELL)


@pytest.mark.parametrize("where", ["node", "laptop"])
def test_one_that_was_started_again_once_is_in_no_loop(where: str, request: pytest.FixtureRequest) -> None:
    host: ScriptedHost = request.getfixturevalue(where)
    once = Restarts(1, "", "2026-11-29T23:24:08+00:00", "exit-code", False)
    assert restarts(host, "llm/revived") == once


@pytest.mark.parametrize(
    ("began", "code", "loop"),
    [("23:24:07", 1, True), ("23:24:07", 143, True), ("21:24:07", 1, False)],
)
def test_one_that_runs_again_is_in_a_loop_where_its_starts_are_short(
    node: ScriptedHost, began: str, code: int, loop: bool
) -> None:
    containers = json.loads((RECORDED / "node-containers").read_text())
    again, died = (each["status"] for each in containers if "revived" in str(each["status"]["labels"]))
    again["metadata"]["attempt"], died["metadata"]["attempt"] = 5, 4
    died["startedAt"], died["exitCode"] = f"2026-11-29T{began}Z", code
    node.commands["crictl inspect"] = json.dumps(containers)
    assert restarts(node, "revived").loop is loop


@pytest.mark.parametrize(("began", "code"), [("20:24:07", 1), ("23:24:07", 143), ("23:24:07", 0)])
def test_an_end_after_hours_or_one_that_was_asked_for_is_no_loop(
    node: ScriptedHost, began: str, code: int
) -> None:
    containers = json.loads((RECORDED / "node-containers").read_text())
    (kimi,) = (each["status"] for each in containers if "kimi-" in str(each["status"]["labels"]))
    kimi["startedAt"], kimi["exitCode"] = f"2026-11-29T{began}Z", code
    node.commands["crictl inspect"] = json.dumps(containers)
    assert not restarts(node, "kimi").loop


def test_of_one_that_runs_again_the_cluster_tells_why_it_died_where_no_log_does(laptop: ScriptedHost) -> None:
    pods = json.loads((RECORDED / "cluster-containers").read_text())
    (greedy,) = (pod for pod in pods["items"] if pod["metadata"]["name"].startswith("greedy"))
    (told,) = greedy["status"]["containerStatuses"]
    told["state"] = {"running": {"startedAt": "2026-11-29T23:25:18Z"}}
    laptop.commands |= {"kubectl get pods": json.dumps(pods), "kubectl logs": WELL}
    report = diagnose.diagnose(laptop.evidence, diagnose.load_knowledge(), "llm/greedy")
    (finding,) = report.incidents
    assert finding.verdict.category == "host-oom"
    assert report.restarts is not None
    assert (report.restarts.loop, report.restarts.result) == (True, "oom-kill")


def test_a_node_whose_runtime_may_not_be_asked_says_so(node: ScriptedHost) -> None:
    said = b'level=fatal msg="dial unix /run/containerd/containerd.sock: connect: permission denied"\n'
    node.commands |= {"crictl ps": Output(1, b"", said), "ps": ps_text((445, 1, "root", "/usr/bin/kubelet"))}
    with pytest.raises(UnreachableError, match="permission denied"):
        discover(node.evidence)
    with pytest.raises(UsageError, match=r"permission denied.*kubectl: the command is not on this host"):
        discover(node.evidence, "llm/kimi")


def test_a_crictl_that_does_not_find_the_runtime_says_what_to_do(node: ScriptedHost) -> None:
    """Without a configuration: 1.25 (kubernetes-sigs/cri-tools, issue 1089), and 1.20 for a log alone."""
    lost = (
        b'time="2026-11-29T23:24:33Z" level=fatal msg="listing containers: rpc error: code = Unavailable '
        b"desc = connection error: desc = "
        b'\\"transport: Error while dialing dial unix /var/run/dockershim.sock: connect: no such file\\""\n'
    )
    told = node.commands["crictl ps"]
    node.commands |= {"crictl ps": Output(1, b"", lost), "ps": ps_text((445, 1, "root", "/usr/bin/kubelet"))}
    with pytest.raises(
        UnreachableError, match=r"dockershim.*name the runtime-endpoint in its /etc/crictl\.yaml"
    ):
        discover(node.evidence)
    late = b'time="2026-11-29T23:24:33Z" level=fatal msg="context deadline exceeded"\n'
    node.commands |= {"crictl ps": told, "crictl logs": Output(1, b"", late)}
    with pytest.raises(UnreachableError, match="deadline exceeded; name the runtime-endpoint"):
        diagnose.diagnose(node.evidence, diagnose.load_knowledge(), "llm/serves")


def test_a_container_that_goes_between_the_list_and_the_description_hides_no_other(
    node: ScriptedHost,
) -> None:
    gone = b'time="2026-11-29T23:24:33Z" level=fatal msg="rpc error: code = NotFound"\n'
    node.commands |= {
        "crictl inspect": Output(1, b"", gone),
        "sh -c for id do": node.commands["crictl inspect"],
    }
    assert KIMI in [each.name for each in discover(node.evidence)]


def test_containers_that_nobody_can_be_asked_of_are_said(laptop: ScriptedHost) -> None:
    del laptop.commands["kubectl get pods"]
    shim = "/usr/bin/containerd-shim-runc-v2 -namespace default -id 7aed -address /run/c.sock"
    for commands in (("/usr/bin/containerd",), ("/usr/bin/containerd", "/usr/bin/dockerd", shim)):
        laptop.commands["ps"] = ps_text(*((each + 1, 0, "root", word) for each, word in enumerate(commands)))
        with pytest.raises(UnreachableError, match=r"nerdctl or ctr .* give its log with --log FILE"):
            discover(laptop.evidence)
    endless = "containerd-shim" * 300_000
    laptop.commands["ps"] = ps_text(
        (1, 0, "root", "/usr/bin/containerd"), (2, 0, "root", "/usr/bin/dockerd"), (3, 0, "root", endless)
    )
    with pytest.raises(UnreachableError) as error:
        discover(laptop.evidence)
    assert "nerdctl" not in error.value.happened


def test_a_cluster_is_asked_where_nothing_serves_here(laptop: ScriptedHost) -> None:
    found = discover(laptop.evidence)
    assert {each.manager for each in found} == {"kubectl"}
    kimi = next(each for each in found if each.name == KIMI)
    assert (kimi.state, kimi.result, kimi.node) == ("CrashLoopBackOff", "exit-code", "gpu01")
    assert kimi.image == "docker.io/lmsysorg/sglang:v0.5.11"
    absent = next(each for each in found if each.name == "llm/absent")
    assert (absent.engine, str(absent.layout), absent.result) == ("vllm", "tp4", "")


def test_of_this_machine_nothing_is_taken_for_the_pods(laptop: ScriptedHost) -> None:
    laptop.commands["nvidia-smi"] = "of the wrong machine"
    report = diagnose.diagnose(laptop.evidence, diagnose.load_knowledge(), KIMI)
    (finding,) = report.incidents
    assert finding.incident.initiator is not None
    assert report.deployment.package_root == FILE.partition("/srt")[0]
    named = {GpuInventory().argv()[0], MemoryInfo().argv()[-1], KernelLog(0, 0).argv()[0]}
    assert not [argv for argv in laptop.asked if named.intersection(argv)]
    assert any("its node, gpu01" in note for note in report.notes)


def test_the_failed_start_of_a_pod_that_runs_again(laptop: ScriptedHost) -> None:
    previous = (
        "kubectl logs --namespace llm revived-0 --container engine --timestamps --tail 200000 --previous"
    )
    laptop.commands |= {"kubectl logs": WELL, previous: LOG}
    evidence = laptop.evidence
    (deployment,) = discover(evidence, REVIVED)
    sources = log_sources(evidence, deployment)
    assert [source.data[:] for source in sources[:2]] == [LOG.encode(), WELL.encode()]
    assert all("llm" in argv for argv in laptop.asked if argv[:3] == ("kubectl", "get", "pods"))


def test_the_tree_of_one_that_runs_is_that_of_its_own_interpreter(laptop: ScriptedHost) -> None:
    inside = "kubectl exec --stdin --namespace llm revived-0 --container engine -- python3 -B -"
    laptop.commands[inside] = tree_text("/opt/venv/sglang")
    (deployment,) = discover(laptop.evidence, REVIVED)
    assert (deployment.package_root, deployment.version) == ("/opt/venv/sglang", "0.5.11")
    del laptop.commands[inside]
    (deployment,) = discover(laptop.evidence, REVIVED)
    assert deployment.version == ""
    assert "python3 would import there is not known" in deployment.disagreements[0]


def test_a_pod_that_never_started_says_why(laptop: ScriptedHost) -> None:
    waits = b'Error from server (BadRequest): container "engine" in pod "absent" is waiting to start\n'
    laptop.commands["kubectl logs"] = Output(1, b"", waits)
    with pytest.raises(UnreachableError) as error:
        diagnose.diagnose(laptop.evidence, diagnose.load_knowledge(), "llm/absent")
    assert "ErrImageNeverPull" in error.value.happened
    assert "not present with pull policy" in error.value.happened
    assert str(error.value.next) == "kubectl describe pod --namespace llm absent"


def test_a_pod_that_is_not_there(laptop: ScriptedHost) -> None:
    with pytest.raises(UsageError, match=f"no pod is known by that; .*{KIMI}"):
        discover(laptop.evidence, "llm/nothing")
    laptop.commands["kubectl get pods"] = Output(1, b"", b"The connection to the server was refused\n")
    with pytest.raises(UsageError, match="kubectl: The connection"):
        discover(laptop.evidence, "llm/nothing")
    with pytest.raises(UnreachableError, match="kubectl: The connection"):
        discover(laptop.evidence)


def test_a_machine_without_kubectl(laptop: ScriptedHost) -> None:
    del laptop.commands["kubectl get pods"]
    with pytest.raises(UnreachableError) as error:
        discover(laptop.evidence)
    assert "kubectl" not in error.value.happened


def test_a_pod_is_not_patched(laptop: ScriptedHost) -> None:
    with pytest.raises(RefusedError, match="gone with it, in Kubernetes at each start") as refused:
        find_target(laptop, (), unit=KIMI)
    assert str(refused.value.next) == f"triage patch gpu01 --unit {KIMI} --export dockerfile"
