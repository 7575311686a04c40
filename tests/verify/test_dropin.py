"""What becomes of a unit whose layouts are tried, over a stand-in for systemd's own commands.

That systemd itself reads the drop-in so is for tests/e2e/test_bench.py.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.verify.test_compare import figures, result
from triage.common.errors import RefusedError, UnreachableError
from triage.evidence.catalogue.systemd import ExecCommand
from triage.evidence.model import Deployment, Layout
from triage.hosts.local import LocalConnection
from triage.verify.events import LogLine
from triage.verify.service import dropin
from triage.verify.service.dropin import FILE, DropIn
from triage.workflows import bench as benching
from triage.workflows.bench import Bench, bench
from triage.workflows.verify import Options

UNIT = "kimi.service"
COMMAND = ("/bin/python", "-m", "sglang.launch_server", "--model-path", "/m")
SYSTEMCTL = """#!/bin/sh
echo "$@" >>"$HERE/calls"
case "$*" in
*show*) printf 'LoadState=loaded\\nActiveState=active\\nSubState=running\\nInvocationID=1\\n' ;;
*restart*) test ! -e "$HERE/deaf" ;;
esac
"""
# busctl: the command of the drop-in, told apart by its size alone, or the unit's own
BUSCTL = """#!/bin/sh
if [ -e "$HERE/units/kimi.service.d/zz-triage-layout.conf" ] && [ ! -e "$HERE/overruled" ]
then cat "$HERE/changed.json"
else cat "$HERE/own.json"
fi
"""


def exec_start(*commands: tuple[str, ...], flags: object = ()) -> str:
    data = [[argv[0], list(argv), flags, 0] for argv in commands]
    return json.dumps({"type": "a(sasas)", "data": data})


@dataclass(frozen=True)
class Machine:
    directory: Path

    @property
    def dropin(self) -> Path:
        return self.directory / "units" / f"{UNIT}.d" / FILE

    @property
    def calls(self) -> list[str]:
        return (self.directory / "calls").read_text().splitlines()

    def bench(self, *layouts: Layout, told: Callable[[Bench], None] = lambda bench: None) -> Bench:
        deployment = Deployment("kimi", engine="sglang", unit=UNIT, port=30000)
        return bench(LocalConnection(), deployment, layouts, Options(), on_measured=told)

    def runs(self, layout: Layout) -> None:
        """Whatever its arguments say."""
        (self.directory / "runs").write_text(json.dumps(asdict(layout)))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    programs = {"systemctl": SYSTEMCTL, "systemd-run": '#!/bin/sh\necho run "$@" >>"$HERE/calls"\n'}
    (tmp_path / "bin").mkdir()
    for name, text in {**programs, "busctl": BUSCTL}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "own.json").write_text(exec_start(COMMAND))
    (tmp_path / "changed.json").write_text(exec_start((*COMMAND, "--tp-size", "8")))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setattr(dropin, "DIRECTORY", str(tmp_path / "units"))

    def discover(*_: object) -> list[Deployment]:
        layout = Layout(**json.loads((tmp_path / "runs").read_text()))
        return [Deployment("kimi", state="active", layout=layout, arguments={"tp-size": "$TP"})]

    monkeypatch.setattr(benching, "discover", discover)
    machine = Machine(tmp_path)
    machine.runs(Layout(tp=8))
    return machine


def measuring(monkeypatch: pytest.MonkeyPatch, machine: Machine, outcome: Any) -> None:
    def verify(*_: object) -> Any:
        assert machine.dropin.exists()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    monkeypatch.setattr(benching, "verify", verify)


def test_a_layout_is_measured_under_a_drop_in_that_is_gone_afterwards(machine: Machine, monkeypatch):
    measuring(monkeypatch, machine, result(figures(20, 80)))
    found = machine.bench(Layout(tp=8), Layout(tp=8))
    assert (len(found.measured), found.best, found.notes) == (1, Layout(tp=8), ())
    assert not machine.dropin.parent.exists()
    assert "restart --no-block kimi.service" in machine.calls
    assert machine.calls[-1] == "stop triage-restore-kimi_service.timer"


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UnreachableError("a", "b", "lost", "")])
def test_whatever_happens_it_is_as_it_was(machine: Machine, monkeypatch, error: BaseException):
    measuring(monkeypatch, machine, error)
    with pytest.raises(type(error)):
        machine.bench(Layout(tp=8))
    assert not machine.dropin.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_and_a_plain_kill_end_it_as_ctrl_c_does(machine: Machine, monkeypatch, number):
    before = signal.getsignal(number)
    monkeypatch.setattr(benching, "verify", lambda *_: os.kill(os.getpid(), number))
    with pytest.raises(KeyboardInterrupt):
        machine.bench(Layout(tp=8))
    assert not machine.dropin.exists()
    assert signal.getsignal(number) is before


def test_under_nohup_it_goes_on(machine: Machine, monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def verify(*_: object) -> Any:
        os.kill(os.getpid(), signal.SIGHUP)
        return result(figures(20, 80))

    monkeypatch.setattr(benching, "verify", verify)
    try:
        assert machine.bench(Layout(tp=8)).best == Layout(tp=8)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UnreachableError("a", "b", "lost", "")])
def test_where_it_cannot_be_restored_it_is_said_that_the_host_will(machine: Machine, monkeypatch, error):
    (machine.directory / "deaf").touch()
    measuring(monkeypatch, machine, error)
    with pytest.raises(UnreachableError, match="the host has it as it was by itself, within 21 minutes"):
        machine.bench(Layout(tp=8))


def test_what_was_measured_is_not_lost_where_it_cannot_be_restored(machine: Machine, monkeypatch):
    (machine.directory / "deaf").touch()
    measuring(monkeypatch, machine, result(figures(20, 80)))
    found = machine.bench(Layout(tp=8))
    assert found.best == Layout(tp=8)
    assert "by itself, within 21 minutes" in found.notes[0]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), UnreachableError("a", "b", "lost", "")])
def test_what_was_measured_is_told_before_the_rest_is_cut(machine: Machine, monkeypatch, error):
    measuring(monkeypatch, machine, result(figures(20, 80)))
    told: list[Bench] = []

    def cut(so_far: Bench) -> None:
        told.append(so_far)
        raise error

    with pytest.raises(type(error)):
        machine.bench(Layout(tp=8), Layout(pp=8), told=cut)
    assert [(one.layout, one.verification.metrics != ()) for one in told[0].measured] == [
        (Layout(tp=8), True)
    ]
    assert (told[0].best, told[0].left) == (Layout(tp=8), (Layout(pp=8),))
    assert not machine.dropin.exists()


def test_a_layout_is_not_compared_with_the_last_verification(machine: Machine, monkeypatch):
    """Which may have been of another one."""
    measuring(monkeypatch, machine, result(figures(20, 80), verdict="worse", compared_with="yesterday"))
    found = machine.bench(Layout(tp=8)).measured[0].verification
    assert (found.verdict, found.compared_with, found.arguments["tp"]) == ("inconclusive", "", "8")


def test_a_layout_that_a_variable_overrules_has_failed(machine: Machine, monkeypatch):
    machine.runs(Layout(tp=4))
    measuring(monkeypatch, machine, result(figures(20, 80)))
    found = machine.bench(Layout(tp=8))
    assert (found.best, found.measured[0].verification.verdict) == (None, "failed")
    assert found.measured[0].verification.reason.startswith("it runs tp4: a variable or a script")


def test_secrets_of_the_command_are_run_and_not_shown(machine: Machine, monkeypatch):
    keyed = (*COMMAND, "--api-key", "sk-0123456789abcdefghij", "--tp-size", "4")
    (machine.directory / "own.json").write_text(exec_start(keyed))
    written: list[str] = []

    def verify(*_: object) -> Any:
        written.append(machine.dropin.read_text())
        return result(figures(20, 80))

    monkeypatch.setattr(benching, "verify", verify)
    (machine.directory / "changed.json").write_text(exec_start((*keyed[:-2], "--tp-size", "8")))
    machine.bench(Layout(tp=8))
    assert '"--api-key" "sk-0123456789abcdefghij" "--tp-size" "8"' in written[0]
    (machine.directory / "overruled").touch()
    with pytest.raises(RefusedError, match="systemd goes on with") as refused:
        machine.bench(Layout(tp=8))
    assert "sk-0123" not in str(refused.value)


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ([], "ExecStart=@"),
        (["ignore-failure", "no-env-expand", "privileged"], "ExecStart=-:+@"),
        (["ambient"], "ExecStart=!!@"),
    ],
)
def test_prefixes_are_kept(machine: Machine, monkeypatch, flags: list[str], line: str):
    (machine.directory / "own.json").write_text(exec_start(COMMAND, flags=flags))
    changed = (*COMMAND, "--tp-size", "8")
    (machine.directory / "changed.json").write_text(exec_start(changed, flags=flags))
    written: list[str] = []

    def verify(*_: object) -> Any:
        written.append(machine.dropin.read_text())
        return result(figures(20, 80))

    monkeypatch.setattr(benching, "verify", verify)
    machine.bench(Layout(tp=8))
    assert f'\n{line}"/bin/python" "/bin/python" "-m"' in written[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (exec_start(COMMAND, COMMAND), "several commands"),
        (exec_start(COMMAND, flags=["via-shell"]), "in a way of its own: via-shell"),
        (exec_start(COMMAND, flags=False), "older than 243"),
        ("", "does not tell its command"),
    ],
)
def test_a_command_that_would_not_mean_the_same_is_left_alone(machine: Machine, answer: str, reason: str):
    (machine.directory / "own.json").write_text(answer)
    with pytest.raises(RefusedError, match=reason):
        machine.bench(Layout(tp=8))
    assert not machine.dropin.parent.exists()


def test_one_node_of_several_is_left_alone(machine: Machine):
    deployment = Deployment("kimi", engine="sglang", unit=UNIT, arguments={"nnodes": "2"})
    with pytest.raises(RefusedError, match="one of several nodes"):
        bench(LocalConnection(), deployment, [Layout(tp=8)], Options())


def test_a_command_that_does_not_change_is_not_measured(machine: Machine, monkeypatch):
    (machine.directory / "overruled").touch()
    measuring(monkeypatch, machine, result(figures(20, 80)))
    with pytest.raises(RefusedError, match="systemd goes on with /bin/python -m sglang"):
        machine.bench(Layout(tp=8))
    assert not machine.dropin.exists()


def test_two_benches_of_one_unit_do_not_meet(machine: Machine):
    machine.dropin.parent.mkdir(parents=True)
    machine.dropin.touch()
    with pytest.raises(RefusedError, match="another triage bench"):
        machine.bench(Layout(tp=8))
    assert machine.dropin.exists()


def test_where_nothing_could_be_written_nothing_is_restarted(machine: Machine):
    (machine.directory / "bin" / "systemd-run").write_text("#!/bin/sh\necho 'Access denied' >&2\nexit 1\n")
    with pytest.raises(RefusedError, match="Access denied"):
        machine.bench(Layout(tp=8))
    assert not any("restart" in call for call in machine.calls)


def test_while_it_is_told_something_its_time_begins_anew(machine: Machine, monkeypatch):
    def verify(*given: Any) -> Any:
        for _ in range(3):
            given[-1](LogLine("loading"))
        return result(figures(20, 80))

    monkeypatch.setattr(benching, "verify", verify)
    renewal = "restart triage-restore-kimi_service.timer"
    machine.bench(Layout(tp=8))
    assert machine.calls.count(renewal) == 0  # not for each line
    monkeypatch.setattr(benching, "RENEWAL", 0.0)
    machine.bench(Layout(tp=8))
    assert machine.calls.count(renewal) == 3


def test_a_line_that_is_cut_for_a_moment_does_not_end_it(machine: Machine, monkeypatch):
    def verify(*given: Any) -> Any:
        (machine.directory / "deaf").touch()
        given[-1](LogLine("loading"))
        (machine.directory / "deaf").unlink()
        return result(figures(20, 80))

    monkeypatch.setattr(benching, "verify", verify)
    monkeypatch.setattr(benching, "RENEWAL", 0.0)
    assert machine.bench(Layout(tp=8)).best == Layout(tp=8)


def test_removing_twice_restarts_once(machine: Machine):
    one = DropIn(LocalConnection(), UNIT, "restart")
    one.write(ExecCommand(COMMAND[0], (*COMMAND, "--tp-size", "8"), frozenset()), 60)
    one.remove()
    one.remove()
    assert machine.calls.count("restart --no-block kimi.service") == 1


def test_it_is_read_after_an_administrators_own():
    assert FILE > "override.conf"
