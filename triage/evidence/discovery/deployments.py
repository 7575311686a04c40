"""Which inference services a host has, and which source tree each of them runs.

The tree that serves: unit -> main pid -> argv[0] and environment of that process (where it is dead,
ExecStart) -> that interpreter's own module search. Where sources disagree, the deployment says so.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from triage.common.commands import command
from triage.common.errors import TriageError, UnreachableError, UsageError
from triage.engines import titles
from triage.evidence.catalogue import (
    Belonging,
    ClusterContainers,
    Containers,
    JournalAccess,
    KnownServiceUnits,
    PodmanStorage,
    Process,
    Processes,
    ProcessGroup,
    ServiceUnits,
    Unit,
    UnitProperties,
    UserServiceUnits,
    WhoAmI,
)
from triage.evidence.discovery.command_line import expand_exec, recognise
from triage.evidence.discovery.containers import (
    Found,
    chosen,
    container_deployment,
    containers,
    has_others,
    in_cluster,
    is_node,
    names_of,
    said_by_crictl,
    serves,
)
from triage.evidence.discovery.environment import relevant
from triage.evidence.discovery.launched import Users, expected_tree, running, with_launch, with_tree_inside
from triage.evidence.discovery.layout_trial import on_trial
from triage.evidence.discovery.managers import about_units_of
from triage.evidence.discovery.unit_command import environment_of, planned, starts_engine, with_script
from triage.evidence.model import NOT_THERE, Deployment, Evidence, Query
from triage.hosts.typed_command import there

SESSION_HOSTS = ("sshd", "cron", "crond", "atd")
SUPERVISORS = ("supervisord", "circusd", "runsvdir", "svscan", "s6-svscan")
NOT_THEIRS = (*SESSION_HOSTS, *SUPERVISORS)  # what runs below them is not their service
UNSTARTABLE = {"not-found": "its unit file is gone", "masked": "it is masked"}
SKIPPABLE = ("inactive", "failed", "")  # "": systemd knows nothing of it
GET_PODS = "kubectl get pods --all-namespaces"
OTHERS = "what nerdctl or ctr has started in a container is not looked for: give its log with --log FILE"
LIST_UNITS = "systemctl list-units --type=service --all"
_USER_MANAGER = re.compile(r"(?:\S*/)?systemd --user(?: .*)?")


def discover(
    evidence: Evidence, unit: str = "", next_of: Callable[[Unit], Sequence[Query[Any]]] = lambda _: ()
) -> tuple[Deployment, ...]:
    """The host's inference services: failed ones first, then those that started last.

    With `unit`, that one alone, whatever it runs. `next_of` is what the caller will ask of the first one's
    unit: it is asked together with what is asked here. Raises UsageError when it is not there, and
    UnreachableError when the host has no inference service, or cannot tell.
    """
    host = _Host(evidence, next_of)
    if unit:
        return (with_tree_inside(evidence, host.named(unit)),)
    units = host.service_units()
    first = max(units, key=lambda each: (_ended_badly(each), each.started), default=None)
    found = [host.deployment_of(each, is_first=each is first) for each in units]
    found += _serving(host.containers)
    found += [host.deployment_of_process(each) for each in host.plain_processes()]
    found = found or [host.deployment_of(each) for each in host.idle_units() if host.has_run(each.id)]
    found = found or _serving(in_cluster(evidence))
    if not found:
        raise UnreachableError(
            "finding an inference service on",
            evidence.origin.name,
            host.why_none(),
            f"name the unit with --unit; to list them: {there(evidence.origin.name, LIST_UNITS)}",
        )
    found.sort(key=lambda each: each.started, reverse=True)
    found.sort(key=_urgency)
    return (with_tree_inside(evidence, found[0]), *found[1:])


class _Host:
    """What was asked of one host while its deployments are put together."""

    def __init__(self, evidence: Evidence, next_of: Callable[[Unit], Sequence[Query[Any]]]) -> None:
        self.evidence = evidence
        self.next_of = next_of
        evidence.foresee((ServiceUnits(), Processes(), WhoAmI(), PodmanStorage()))
        self.units = self.evidence.ask(ServiceUnits())
        self.processes = self.evidence.ask(Processes())
        self.by_pid = {process.pid: process for process in self.processes.value or ()}
        self.by_id = {unit.id: unit for unit in self.units.value or ()}
        self.own_units = evidence.ask(UserServiceUnits()).value if self._has_own_manager() else ()
        self.own_by_id = {unit.id: unit for unit in self.own_units or ()}
        serving = self._serving_processes()
        evidence.foresee([ProcessGroup(pid) for pid in serving])
        self.belongs = {pid: self._belongs(pid) for pid in serving}
        commands = [each.args for each in self.by_pid.values()]
        self.is_node = is_node(commands)
        self.others = f"; {OTHERS}" if has_others(commands) else ""
        self.containers = containers(evidence, commands)

    def why_none(self) -> str:
        if self.processes.value is None:
            return f"the processes could not be listed: {self.processes.missing}"
        if self.units.value is None:
            return f"no process runs {titles('or')}, and systemd does not answer: {self.units.missing}"
        idle = ", ".join(unit.id for unit in self.idle_units()[:8])
        others = ", ".join(sorted(self._own_managers() - {self._me()})[:8])
        unread = idle and self.evidence.ask(JournalAccess()).value is False
        why = "may not be read by this user" if unread else "tells of no run"
        hint = f"; {idle} would, but does not run, and the journal {why}" if idle else ""
        hint += f"; the user units of {others} are only told to them" if others else ""
        hint += self._unasked() + self.others
        return f"no service unit and no process runs {titles('or')}{hint}"

    def _unasked(self, namespace: str = "") -> str:
        """What stands between us and pods that may be there; where one was named, a missing kubectl too."""
        crictl = self.evidence.ask(Containers("crictl")) if self.is_node else None
        kubectl = self.evidence.ask(ClusterContainers(namespace))
        said = [f"crictl: {said_by_crictl(crictl.missing)}"] if crictl and crictl.missing else []
        no_word = ("",) if namespace else ("", NOT_THERE)
        said += [f"kubectl: {kubectl.missing}"] if kubectl.missing not in no_word else []
        return f"; pods are not told of ({'; '.join(said)})" if said else ""

    def named(self, name: str) -> Deployment:
        """The unit of that name, else the container or pod, else the plain process: `pid 4711`."""
        if set(name) & set("*?["):  # systemctl would take any unit that it fits
            raise UsageError(
                "finding the unit",
                f"{name} on {self.evidence.origin.name}",
                "that is a pattern, and one unit is meant",
                there(self.evidence.origin.name, LIST_UNITS),
            )
        loaded = self._loaded(name)
        if loaded is not None:
            return self.deployment_of(loaded, is_first=True)
        container = self._chosen(self.containers, name)
        if container is not None:
            return container
        for process in self.plain_processes():
            if name == f"pid {process.pid}":
                return self.deployment_of_process(process)
        namespace, slash, _ = name.partition("/")
        unit = None if slash else self._unit_named(name)
        if unit is not None:
            return self.deployment_of(unit)
        pods = in_cluster(self.evidence, namespace if slash else "")
        pod = self._chosen(pods, name)
        if pod is not None:
            return pod
        if not slash and self.has_run(_unit_name(name)):
            said = f"systemd knows no {_unit_name(name)} any more; this is what the journal holds"
            return replace(self.deployment_of(Unit(_unit_name(name))), disagreements=(said,))
        raise self._not_named(name, pods)

    def _chosen(self, found: Sequence[Found], name: str) -> Deployment | None:
        """The one container that is meant by a name. Raises UsageError where several are."""
        meant, names = chosen(found, name), names_of(found)
        if len(meant) > 1:
            each_one = ", ".join(f"{names[each.id]} ({each.state})" for _, each in meant[:16])
            raise UsageError(
                "finding the service",
                f"{name} on {self.evidence.origin.name}",
                f"{len(meant)} containers are meant by that: {each_one}",
                command("diagnose", self.evidence.origin.name, "--unit", names[meant[0][1].id]),
            )
        return container_deployment(*meant[0], names[meant[0][1].id]) if meant else None

    def _unit_named(self, name: str) -> Unit | None:
        """A unit that is not among those that systemd lists."""
        full = _unit_name(name)
        answer = self.evidence.ask(about_units_of("systemd").properties(full))
        own = self.evidence.ask(about_units_of("systemd-user").properties(full)) if self.own_units else answer
        known = (unit for unit in (answer.value, own.value) if unit is not None)
        return next(
            (unit for unit in known if unit.load_state != "not-found" or unit.active_state == "failed"), None
        )

    def _not_named(self, name: str, pods: Sequence[Found]) -> TriageError:
        """Why nothing there is called so, and what is."""
        host = self.evidence.origin.name
        names = [unit.id for unit in self.service_units()]
        names += [each.name for each in (*_serving(self.containers), *_serving(pods))]
        names += [f"pid {process.pid}" for process in self.plain_processes()]
        known = f"inference services there: {', '.join(names) or 'none'}{self.others}"
        if "/" in name:
            why = f"no pod is known by that{self._unasked(name.partition('/')[0])}; {known}"
            return UsageError("finding the pod", f"{name} on {host}", why, GET_PODS)
        if re.fullmatch("pid [0-9]+", name):
            why = f"it does not run {titles('or')} by itself; {known}"
            return UsageError("finding the process", f"{name} on {host}", why, there(host, "ps ax"))
        full = _unit_name(name)
        answer = self.evidence.ask(about_units_of("systemd").properties(full))
        if answer.value is None:
            why = f"systemd does not answer: {answer.missing}; {known}"
            return UnreachableError("finding the unit", f"{full} on {host}", why, command("diagnose", host))
        why = f"systemd knows no such unit; {known}"
        return UsageError("finding the unit", f"{full} on {host}", why, there(host, LIST_UNITS))

    def _loaded(self, name: str) -> Unit | None:
        full = _unit_name(name)
        return self.by_id.get(full) or self.own_by_id.get(full)

    def _unlisted(self, name: str) -> Unit | None:
        """A unit in which something serves: masked, without its file by now, or called like systemd's own."""
        unit = self.evidence.ask(UnitProperties(name)).value if self.units.value and name else None
        if unit is None or unit.active_state in ("", "inactive"):
            return None
        self.by_id[unit.id] = unit
        return unit

    def _in(self, unit: Unit) -> list[int]:
        """The processes that serve in the unit."""
        if unit.manager == "systemd-user":
            mine = filter(self._in_own_unit, self.belongs)
            return [pid for pid in mine if self.belongs[pid].user_unit == unit.id]
        return [pid for pid, belonging in self.belongs.items() if belonging.unit == unit.id]

    def _in_own_unit(self, pid: int) -> bool:
        """Whether it is a process of a unit that the connecting user's own systemd has."""
        known = self.belongs[pid].user_unit in self.own_by_id
        return known and self.by_pid[pid].user == self._me()

    def _me(self) -> str:
        return self.evidence.ask(WhoAmI()).value or ""

    def _has_own_manager(self) -> bool:
        """Whether the connecting user has a systemd of his own: with a session, or lingering."""
        managers = self._own_managers()
        return bool(managers) and self._me() in managers

    def _own_managers(self) -> set[str]:
        """The users who have one."""
        return {process.user for process in self.by_pid.values() if _USER_MANAGER.fullmatch(process.args)}

    def service_units(self) -> tuple[Unit, ...]:
        """Units that start an engine, by their command or by what runs in them."""
        units = [
            unit
            for unit in (*self.by_id.values(), *(self.own_units or ()))
            if unit.load_state == "loaded" or self._in(unit)
        ]
        found = {unit.id for unit in units if self._in(unit) or starts_engine(self.evidence, unit)}
        found |= with_script(
            self.evidence, [unit for unit in units if unit.id not in found and _ended_badly(unit)]
        )
        return tuple(unit for unit in units if unit.id in found)

    def idle_units(self) -> tuple[Unit, ...]:
        """Units that would start an engine, and that systemd does not have in memory."""
        known = self.evidence.ask(KnownServiceUnits()).value if self.units.value else ()
        idle = [unit for unit in known or () if unit.id not in self.by_id and unit.load_state == "loaded"]
        found = with_script(self.evidence, idle) | {
            unit.id for unit in idle if starts_engine(self.evidence, unit)
        }
        return tuple(unit for unit in idle if unit.id in found)

    def has_run(self, unit: str) -> bool:
        """Whether the journal holds a run of it."""
        return bool(self.evidence.ask(about_units_of("systemd").runs(unit)).value)

    def plain_processes(self) -> tuple[Process, ...]:
        """Processes that serve, and belong to none of the units."""
        inside = {container.pid for _, container in self.containers if container.pid}
        return tuple(
            self.by_pid[pid]
            for pid, belonging in self.belongs.items()
            if not belonging.unit and not self._in_own_unit(pid) and not inside & {pid, *self._ancestors(pid)}
        )

    def deployment_of(self, unit: Unit, *, is_first: bool = False) -> Deployment:
        environment = environment_of(self.evidence, unit)
        deployment = Deployment(
            name=unit.id,
            manager=unit.manager,
            unit=unit.id,
            state=unit.active_state,
            result=unit.result,
            exit_status=unit.exit_status,
            invocation=unit.invocation,
            started=unit.started,
            restarts=unit.restarts,
            main_pid=unit.main_pid,
            user=unit.user,
            log_namespace=unit.log_namespace if unit.manager == "systemd" else "",
            environment=MappingProxyType(relevant(environment)),
            working_directory=unit.working_directory or "/",
        )
        users = self._users(unit.main_pid, unit)
        question = about_units_of(unit.manager).command(unit.id)
        tree = () if unit.main_pid else expected_tree(deployment, expand_exec(unit.argv, environment), users)
        self.evidence.foresee((question, *tree, *(self.next_of(unit) if is_first else ())))
        command = self.evidence.ask(question).value
        program, argv = (command.program, command.argv) if command else (unit.program, unit.argv)
        launch = planned(self.evidence, unit, program, expand_exec(argv, environment), environment)
        deployment = replace(deployment, argv=argv)
        if not unit.invocation:
            deployment = self._last_run(deployment)
        if unit.load_state in UNSTARTABLE and unit.active_state != "inactive":
            said = f"systemd would not start it again: {UNSTARTABLE[unit.load_state]}"
            deployment = replace(deployment, disagreements=(said,))
        if unit.needs_reload and unit.load_state == "loaded":
            reload = f"systemctl {'--user ' if unit.manager == 'systemd-user' else ''}daemon-reload"
            said = f"{unit.fragment} has changed since systemd read it ({reload})"
            deployment = replace(deployment, disagreements=(said,))
        if unit.unmet and unit.active_state in SKIPPABLE:
            deployment = replace(deployment, skipped=self._why_skipped(unit))
        if deployment.skipped:
            said = f"systemd did not start it when it was to: {deployment.skipped}"
            deployment = replace(deployment, disagreements=(*deployment.disagreements, said))
        if trial := on_trial(unit):
            deployment = replace(deployment, disagreements=(*deployment.disagreements, trial))
        serving = next(iter(self._in(unit)), unit.main_pid)
        if serving in self.by_pid:
            return running(self.evidence, deployment, self.by_pid[serving], launch, users)
        return with_launch(self.evidence, deployment, launch, users) if launch else deployment

    def deployment_of_process(self, process: Process) -> Deployment:
        deployment = Deployment(
            name=f"pid {process.pid}",
            manager="process",
            state="running",
            started=process.started,
            main_pid=process.pid,
            user=process.user,
        )
        belonging = self.belongs[process.pid]
        if belonging.container:
            said = f"it runs in a container ({belonging.container}): its files are not those of the host"
            deployment = replace(deployment, disagreements=(said,))
        if belonging.user_unit:
            said = f"it is {belonging.user_unit} of the own systemd of {process.user}: connect as that user"
            deployment = replace(deployment, disagreements=(said,))
        return running(self.evidence, deployment, process, None, self._users(process.pid, None))

    def _serving_processes(self) -> tuple[int, ...]:
        """Processes that run an engine themselves, without those that such a one started."""
        serving = set()
        for pid, process in self.by_pid.items():
            words = tuple(process.args.split())
            launch = recognise(words)
            if launch and launch.argv == words:
                serving.add(pid)
        return tuple(pid for pid in sorted(serving) if not serving.intersection(self._ancestors(pid)))

    def _ancestors(self, pid: int) -> set[int]:
        found: set[int] = set()
        parent = self.by_pid[pid].ppid
        while parent in self.by_pid and parent not in found:
            found.add(parent)
            parent = self.by_pid[parent].ppid
        return found

    def _last_run(self, deployment: Deployment) -> Deployment:
        """systemd forgets a unit that nothing needs any more; the journal does not."""
        runs = self.evidence.ask(about_units_of(deployment.manager).runs(deployment.unit)).value or ()
        if runs and deployment.state in SKIPPABLE:
            deployment = replace(deployment, skipped=runs[-1].skipped)
        last = next((run for run in reversed(runs) if run.invocation), None)
        if last is None:
            return deployment
        return replace(deployment, invocation=last.invocation, started=last.started, result=last.result)

    def _why_skipped(self, unit: Unit) -> str:
        if unit.result == "exec-condition":
            return "its ExecCondition= said no"
        questions = about_units_of(unit.manager)
        if unmet := self.evidence.ask(questions.unmet(unit.id)).value:
            return f"{', '.join(unmet)} was not met"
        runs = self.evidence.ask(questions.runs(unit.id)).value  # a daemon-reload forgets which one it was
        return (runs[-1].skipped if runs else "") or "a condition of its unit was not met"

    def _users(self, main_pid: int | None, unit: Unit | None) -> Users:
        """Where we are root, the service's own user, or nobody, where that user exists only while the service
        runs."""
        if self.belongs.get(main_pid or 0, Belonging()).container:
            return None
        if self._me() != "root":
            return ("",)
        process = self.by_pid.get(main_pid or 0)
        user = unit.user if unit else process.user if process else ""
        return ("",) if user in ("", "root", "0") else (user, "nobody")

    def _belongs(self, pid: int) -> Belonging:
        """What a process serves for; no unit for one that was merely started from a session or a supervisor,
        whose journal and restart are not its own."""
        belonging = self.evidence.ask(ProcessGroup(pid)).value or Belonging()
        if belonging.user_unit:
            return belonging
        unit = self.by_id.get(belonging.unit) or self._unlisted(belonging.unit)
        if unit is None or posixpath.basename(unit.program) in NOT_THEIRS:
            return Belonging(container=belonging.container)
        return belonging


def _serving(found: Sequence[Found]) -> list[Deployment]:
    """The services among containers."""
    names = names_of(found)
    return [container_deployment(tool, each, names[each.id]) for tool, each in found if serves(each)]


def _unit_name(name: str) -> str:
    return name if re.search(r"\.[a-z]+\Z", name) else f"{name}.service"


def _ended_badly(unit: Unit) -> bool:
    return unit.active_state == "failed" or unit.result not in ("", "success") or unit.restarts > 0


def _urgency(deployment: Deployment) -> int:
    failed = deployment.state == "failed" or deployment.restarts > 0
    return 0 if failed or deployment.result not in ("", "success") else 1
