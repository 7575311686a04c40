"""A deployment, completed with what its process and command say, and what its interpreter would import."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from triage.engines import engine_named
from triage.evidence.catalogue import (
    Process,
    ProcessArguments,
    ProcessDirectory,
    ProcessEnvironment,
    ProgramPath,
    PythonTree,
    ReadFile,
    TreeInside,
)
from triage.evidence.catalogue.python import Interpreter, search_environment
from triage.evidence.discovery.command_line import (
    DEFAULT_PATH,
    Launch,
    layout_of,
    model_of,
    parse_arguments,
    port_of,
    recognise,
)
from triage.evidence.discovery.containers import container_of
from triage.evidence.discovery.engine_config_file import arguments_in
from triage.evidence.discovery.environment import relevant
from triage.evidence.discovery.shell_script import unknown_in
from triage.evidence.model import Deployment, Evidence

Users = tuple[str, ...] | None
"""As whom to run the service's interpreter, the first who can; None where it is in a container."""

_SHEBANG = re.compile(r"/[^\s\"']*/python[0-9.]*")


def running(
    evidence: Evidence, deployment: Deployment, process: Process, planned: Launch | None, users: Users
) -> Deployment:
    """Completed with what the process says; `planned` is what its unit would start."""
    pid = process.pid
    evidence.foresee((ProcessArguments(pid), ProcessEnvironment(pid), ProcessDirectory(pid)))
    argv = evidence.ask(ProcessArguments(pid)).value or tuple(process.args.split())
    environment = evidence.ask(ProcessEnvironment(pid)).value
    directory = evidence.ask(ProcessDirectory(pid)).value
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
        return with_launch(evidence, deployment, planned, users) if planned else deployment
    deployment = with_launch(evidence, deployment, replace(launch, working_directory=""), users)
    meant = planned.python if planned else ""
    if meant.startswith("/") and deployment.python not in ("", meant):
        runs = f"process {pid} runs {deployment.python}, but the unit now names {meant}"
        return replace(deployment, disagreements=(*deployment.disagreements, runs))
    return deployment


def with_launch(evidence: Evidence, deployment: Deployment, launch: Launch, users: Users) -> Deployment:
    """Completed with what the command says, and what its interpreter would import."""
    environment = {**deployment.environment, **relevant(launch.environment)}
    directory = posixpath.join(deployment.working_directory, launch.working_directory).rstrip("/") or "/"
    arguments, loose = parse_arguments(launch.engine, launch.arguments)
    in_file, unread = _in_engine_file(
        evidence, launch.engine, arguments.get("config", ""), directory, deployment.user
    )
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
        python=_python(evidence, launch, environment, directory, deployment.user),
        arguments=MappingProxyType(arguments),
        layout=layout_of(launch.engine, arguments),
        model=model_of(arguments, loose),
        host=arguments.get("host", "") or deployment.host,
        port=port_of(launch.engine, arguments, is_all=not unread),
        disagreements=(*deployment.disagreements, *(said if unset else ()), *unread),
    )
    if users is None or not engine_named(launch.engine).package.name:
        return deployment
    return _with_tree(evidence, deployment, launch, users)


def expected_tree(deployment: Deployment, argv: Sequence[str], users: Users) -> tuple[PythonTree, ...]:
    """What will be asked of the interpreter of a unit that starts its engine without a wrapper."""
    launch = recognise(argv, deployment.environment)
    if not users or launch is None or launch.argv != tuple(argv) or not launch.python.startswith("/"):
        return ()
    return (_tree(replace(deployment, python=launch.python), launch, users[0]),)


def _in_engine_file(
    evidence: Evidence, engine: str, name: str, directory: str, user: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The arguments in the file that `--config` names, and what is to be said where it cannot be read."""
    if not name:
        return {}, ()
    path = posixpath.join(directory, name)
    if not path.endswith((".yaml", ".yml")):  # as both engines have it
        return {}, (f"what --config {path} sets is not known: it is called neither .yaml nor .yml",)
    answer = evidence.ask(ReadFile(path, user))
    try:
        if answer.value is None:
            raise ValueError(answer.missing)
        return arguments_in(engine, answer.value), ()
    except ValueError as error:
        return {}, (f"what --config {path} sets is not known: {error}",)


def _python(
    evidence: Evidence, launch: Launch, environment: Mapping[str, str], directory: str, user: str
) -> str:
    """The interpreter's path: as it was started, found on PATH, or named by a console script."""
    if launch.python:
        return _on_path(evidence, launch.python, environment, directory)
    if not engine_named(launch.engine).package.name:
        return ""
    script = _on_path(evidence, launch.script, environment, directory)
    text = evidence.ask(ReadFile(script, user)).value if script else None
    match = _SHEBANG.search(text[:1000]) if text and text.startswith("#!") else None
    return match[0] if match else ""


def _on_path(evidence: Evidence, program: str, environment: Mapping[str, str], directory: str) -> str:
    if "/" in program:
        return program if program.startswith("/") else posixpath.normpath(f"{directory}/{program}")
    places = (posixpath.join(directory, place) for place in environment.get("PATH", DEFAULT_PATH).split(":"))
    return evidence.ask(ProgramPath(program, ":".join(places))).value or ""


def _with_tree(
    evidence: Evidence, deployment: Deployment, launch: Launch, users: tuple[str, ...]
) -> Deployment:
    interpreter, why = None, "the unit does not say which"
    for user in users if deployment.python else ():
        if interpreter is None:
            answer = evidence.ask(_tree(deployment, launch, user))
            interpreter, why = answer.value, answer.missing
    if interpreter is None:
        said = f"what {deployment.python or 'its interpreter'} would import is not known: {why}"
        return replace(deployment, disagreements=(*deployment.disagreements, said))
    return _with_interpreter(deployment, interpreter)


def _tree(deployment: Deployment, launch: Launch, user: str) -> PythonTree:
    place = posixpath.dirname(launch.script)
    first = posixpath.join(deployment.working_directory, place) if place or not launch.script else ""
    search = search_environment(deployment.environment)
    return PythonTree(deployment.python, search, deployment.working_directory, first.rstrip("/"), user)


def _with_interpreter(deployment: Deployment, interpreter: Interpreter) -> Deployment:
    versions = interpreter.distributions
    package = engine_named(deployment.engine).package
    return replace(
        deployment,
        package_root=interpreter.packages.get(package.name, ""),
        version=next((versions[name] for name in package.distributions if name in versions), ""),
        versions=MappingProxyType(dict(versions)),
    )


def with_tree_inside(evidence: Evidence, deployment: Deployment) -> Deployment:
    """Return a deployment with what the interpreter of its running container would import."""
    container = container_of(deployment)
    if container is None or deployment.state != "running" or not deployment.python:
        return deployment
    query = TreeInside(*container, deployment.python, deployment.working_directory)
    answer = evidence.ask(query)
    if answer.value is None:
        said = f"what {deployment.python} would import there is not known: {answer.missing}"
        return replace(deployment, disagreements=(*deployment.disagreements, said))
    return _with_interpreter(deployment, answer.value)
