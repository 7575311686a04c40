"""What a unit would start: through shells, wrappers and scripts of its own."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from triage.evidence.catalogue import EngineScripts, ReadFile, Unit
from triage.evidence.catalogue.files import ALIKE
from triage.evidence.discovery.command_line import Launch, Read, recognise, recognise_script
from triage.evidence.discovery.environment_file import read_environment_file
from triage.evidence.model import Evidence

SYSTEM_PROGRAMS = ("/usr/bin/", "/usr/sbin/", "/usr/lib/", "/usr/libexec/", "/bin/", "/sbin/", "/lib/")
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
MAX_SCRIPTS = 200
SETTINGS_IN = ("/etc/default/", "/etc/sysconfig/")


def starts_engine(evidence: Evidence, unit: Unit) -> bool:
    if recognise(unit.argv, unit.environment):
        return True
    is_script = _script_of(unit.argv).endswith(".sh")
    return is_script and _script_launch(evidence, unit, unit.argv, unit.environment) is not None


def with_script(evidence: Evidence, units: Sequence[Unit]) -> set[str]:
    """The units whose own script starts an engine."""
    files = {unit.id: file for unit in units if (file := _own_file(unit))}
    paths = tuple(dict.fromkeys(files.values()))[:MAX_SCRIPTS]
    kinds = evidence.ask(EngineScripts(paths)).value if paths else None
    told = {unit.id: (kinds or {}).get(files.get(unit.id, "")) for unit in units}
    return {
        unit.id
        for unit in units
        if told[unit.id] == "python"
        or (told[unit.id] == "shell" and _script_launch(evidence, unit, unit.argv, unit.environment))
    }


def planned(
    evidence: Evidence, unit: Unit, program: str, argv: Sequence[str], environment: Mapping[str, str]
) -> Launch | None:
    """What the unit would start."""
    launch = recognise(argv, environment, _reader(evidence, unit))
    if launch is None:
        script = _script_of(argv)
        own = script.startswith("/") and not script.startswith(SYSTEM_PROGRAMS)
        return _script_launch(evidence, unit, argv, environment) if own else None
    if launch.argv == tuple(argv) and program.startswith("/"):
        return replace(launch, python=program) if launch.python else replace(launch, script=program)
    return launch


def environment_of(evidence: Evidence, unit: Unit) -> dict[str, str]:
    """The variables that the unit sets, and those of its files, as far as they can be read."""
    found = dict(unit.environment)
    for path in unit.environment_files:
        text = evidence.ask(ReadFile(path)).value
        if text is not None:
            found.update(read_environment_file(text))
    return found


def _script_launch(
    evidence: Evidence, unit: Unit, argv: Sequence[str], environment: Mapping[str, str]
) -> Launch | None:
    path = _script_of(argv)
    text, given = evidence.ask(ReadFile(path, unit.user)).value or "", argv[argv.index(path) + 1 :]
    if not text.startswith("#!"):
        return None
    return recognise_script(text, environment, given, _reader(evidence, unit))


def _reader(evidence: Evidence, unit: Unit) -> Read:
    """What a script of the unit sources. It may name any file: only what may be settings is read."""

    def read(name: str) -> str:
        path = posixpath.normpath(posixpath.join(unit.working_directory or "/", name))
        settings = path.endswith(ALIKE) or path.startswith(SETTINGS_IN)
        return evidence.ask(ReadFile(path, unit.user)).value or "" if settings else ""

    return read


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
