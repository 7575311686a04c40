"""Launch commands of inference engines: which engine, whose Python, which arguments.

/opt/venv/bin/python -m sglang.launch_server --model-path M --pp-size 8
/opt/venv/bin/python3 /opt/venv/bin/vllm serve M -tp 4 --port=8000
/bin/bash -c 'source /opt/venv/bin/activate && exec vllm serve M'
numactl --cpunodebind=0 python -m vllm.entrypoints.openai.api_server --model M
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from triage.engines import ENGINES, Engine, engine_named
from triage.evidence.discovery.shell_script import ASSIGNMENT, OUTPUT, Variables, commands_of, unknown_in
from triage.evidence.model import EMPTY, Layout

Read = Callable[[str], str]  # from a file's path to its text, "" where it cannot be read

_MODULES = {module: engine for engine in ENGINES.values() for module in engine.command.modules}
_SERVE_MODULES = {module: engine for engine in ENGINES.values() for module in engine.command.serve_modules}
_PROGRAMS = {program: engine for engine in ENGINES.values() for program in engine.command.programs}
_SIZES = (flag for engine in ENGINES.values() for flag in engine.command.sizes.values())
_SINGLE = frozenset(("host", "port", *_SIZES))
CONDA = ("conda", "mamba", "micromamba")
TAKE_A_LINE = ("su", "runuser", "script", "flock")  # behind -c, as a shell does
WRAPPERS = frozenset(  # what may stand before a program that no subcommand tells from a mere name
    (
        *("env", "exec", "nohup", "nice", "ionice", "taskset", "chrt", "numactl", "setsid", "stdbuf", "time"),
        *(
            "timeout",
            "prlimit",
            "setpriv",
            "sudo",
            "runuser",
            "su",
            "flock",
            "tini",
            "dumb-init",
            "catchsegv",
        ),
        *("conda", "mamba", "micromamba", "uv"),
    )
)
DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_SHELL = re.compile(r"(?:ba|da|z|k|a)?sh")
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_SWITCH = re.compile(r"(?:enable|disable|no|skip|trust|enforce|allow)-|(?:trust-remote-code|enforce-eager)\Z")
MAX_WRAPPER = 64  # words before the engine's own
MAX_SHELLS = 4  # one in the other
MAX_SOURCED = 8  # files of one script


@dataclass(frozen=True)
class Launch:
    """How an engine is started. `argv` begins with the interpreter, the console script or the program.

    `python` is "" when a console script starts it and its interpreter is still to be found, and of an engine
    that is no Python program; `module` is what `-m` names. `environment` holds what a shell script sets
    before.
    """

    engine: str
    argv: tuple[str, ...]
    arguments: tuple[str, ...]  # what follows the module or script
    python: str = ""
    script: str = ""
    module: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    working_directory: str = ""
    output: str = ""  # the file to which a shell sends what it says


def no_file(path: str) -> str:
    return ""


def recognise(
    argv: Sequence[str], environment: Mapping[str, str] = EMPTY, read: Read = no_file, depth: int = 0
) -> Launch | None:
    """The engine that a command starts, also behind env, numactl, a shell's -c and the like.

    `environment` is what a shell in it would be given, `read` how it gets what it sources.
    """
    for index, word in enumerate(argv[:MAX_WRAPPER]):
        program = posixpath.basename(word)
        launch = None
        if _PYTHON.fullmatch(program):
            launch = _after_python(argv[index:])
        elif program in _PROGRAMS:
            launch = _program(_PROGRAMS[program], argv, index)
        elif _SHELL.fullmatch(program):
            return _after_shell(argv[index + 1 :], environment, read, depth + 1)
        elif program in TAKE_A_LINE and "-c" in argv[index:MAX_WRAPPER]:
            launch = _after_shell(argv[argv.index("-c", index) :], environment, read, depth + 1)
        if launch:
            return _with_wrapper(launch, argv[:index])
    return None


def recognise_script(
    text: str,
    environment: Mapping[str, str] = EMPTY,
    given: Sequence[str] = (),
    read: Read = no_file,
    depth: int = 0,
) -> Launch | None:
    """The engine that a shell script starts, with what it sets and where it goes before that.

    `given` are its arguments. Reads assignments, arrays, export, shift, cd, `source VENV/bin/activate`, other
    files with settings that it sources, and exec; no conditions, no loops.
    """
    variables, directory, sourced, output = Variables(environment, given), "", 0, ""
    known = variables.known
    for command in commands_of(text):
        filled = variables.command(command)
        words = [word for word in filled if not word.startswith(OUTPUT)]
        written = next((word[len(OUTPUT) :] for word in reversed(filled) if word.startswith(OUTPUT)), "")
        if words == ["exec"]:
            output = written or output  # of all that follows
        if not words:
            continue
        name = words[0]
        if name == "cd" and len(words) > 1:
            directory = posixpath.join(directory, words[-1])
        elif name in ("source", ".") and len(words) > 1 and words[1].endswith("/bin/activate"):
            known["VIRTUAL_ENV"] = posixpath.join(directory, words[1].removesuffix("/bin/activate"))
            known["PATH"] = f"{known['VIRTUAL_ENV']}/bin:{known.get('PATH', '')}".rstrip(":")
        elif name in ("source", ".") and len(words) > 1 and sourced < MAX_SOURCED:
            variables.source(read(posixpath.join(directory, words[1])))
            sourced += 1
        elif name != "echo" and (launch := recognise(words, known, read, depth)):
            known.update(launch.environment)
            changed = {key: value for key, value in known.items() if environment.get(key) != value}
            file = launch.output or written or output
            place = posixpath.join(directory, file) if file and not unknown_in(file) else ""
            return replace(launch, environment=changed, working_directory=directory, output=place)
    return None


def parse_arguments(engine: str, words: Sequence[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Flags by name, without dashes and with `-` for `_`, and the words that belong to no flag.

    A flag that is given again counts by its last value, as it does for the engines. Several values
    are joined by a blank; a size takes one. A word that begins with `-` and a digit is a value.
    """
    aliases = engine_named(engine).command.aliases
    found: dict[str, str] = {}
    loose: list[str] = []
    current = ""
    for word in words:
        match = None if re.fullmatch(r"-\d[\d.eE+-]*", word) else _FLAG.fullmatch(word)
        if match:
            name = match[1].replace("_", "-")
            name = aliases.get(name, name)
            found[name] = match[2] or ""
            current = "" if match[2] is not None or _SWITCH.match(name) else name
        elif current and not (found[current] and current in _SINGLE):
            found[current] = f"{found[current]} {word}" if found[current] else word
        else:
            loose.append(word)
    return found, tuple(loose)


def layout_of(engine: str, arguments: Mapping[str, str]) -> Layout:
    """Sizes from the flags; those that are missing or no numbers count as 1."""
    command = engine_named(engine).command
    sizes = {
        name: int(value)
        for name, flag in command.sizes.items()
        if (value := arguments.get(flag, "")).isdecimal() and len(value) < 6
    }
    if command.expert_switch and command.expert_switch in arguments:
        sizes["ep"] = sizes.get("tp", 1) * sizes.get("dp", 1)
    return Layout(**sizes)


def model_of(arguments: Mapping[str, str], loose: Sequence[str]) -> str:
    """Its name or path; "" where that is a variable that nobody sets."""
    name = arguments.get("model-path", "") or arguments.get("model", "") or (loose[0] if loose else "")
    return "" if unknown_in(name) else name


def port_of(engine: str, arguments: Mapping[str, str], is_all: bool = True) -> int | None:
    """Return the port; None if it is not known. `is_all` says whether these are all its arguments."""
    given = arguments.get("port", "")
    if given:
        return int(given) if given.isdecimal() and len(given) < 6 else None
    return engine_named(engine).command.default_port if is_all else None


def expand_exec(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """As systemd does it: a lone `$NAME` becomes its words, which may be quoted, `${NAME}` stays one word,
    unknown is empty, `$$` is a dollar sign."""
    words: list[str] = []
    for word in argv:
        lone = re.fullmatch(r"\$(\w+)", word)
        if lone:
            words += _words_of(environment.get(lone[1], ""))
        else:
            words.append(re.sub(r"\$\$|\$\{(\w+)\}", lambda found: _filled(found, environment), word))
    return tuple(words)


def _words_of(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        return value.split()


def _filled(found: re.Match[str], environment: Mapping[str, str]) -> str:
    return environment.get(found[1], "") if found[1] else "$"


def _after_python(words: Sequence[str]) -> Launch | None:
    """`python -u -m MODULE ...` or `python SCRIPT serve ...`."""
    index = 1
    while index < len(words) and words[index].startswith("-") and not words[index].startswith(("-m", "-c")):
        index += 2 if words[index] in ("-W", "-X") else 1
    if index >= len(words):
        return None
    python, what, rest = words[0], words[index], tuple(words[index + 1 :])
    if what.startswith("-m"):
        module, *tail = (what[2:], *rest) if what[2:] else rest or ("",)
        engine = _MODULES.get(module) or _SERVE_MODULES.get(module)
        subcommand = engine.command.subcommand if engine else ""
        serves = bool(subcommand) and tail[:1] == [subcommand]
        if engine is None or not (serves or module in _MODULES):
            return None
        arguments = tuple(tail[1:] if serves else tail)
        return Launch(engine.name, tuple(words), arguments, python=python, module=module)
    engine = _PROGRAMS.get(posixpath.basename(what))
    if engine and engine.package.name and rest[:1] == (engine.command.subcommand,):
        return Launch(engine.name, tuple(words), rest[1:], python=python, script=what)
    for module, engine in _MODULES.items():
        if what.endswith(f"/{module.replace('.', '/')}.py"):
            return Launch(engine.name, tuple(words), rest, python=python, script=what)
    return None


def _program(engine: Engine, argv: Sequence[str], index: int) -> Launch | None:
    """`vllm serve M`, or a program that serves without a word more: it must be the command, no argument."""
    subcommand = engine.command.subcommand
    after = index + 2 if subcommand else index + 1
    if subcommand and list(argv[index + 1 : after]) != [subcommand]:
        return None
    if not subcommand and index and posixpath.basename(argv[0]) not in WRAPPERS:
        return None
    return Launch(engine.name, tuple(argv[index:]), tuple(argv[after:]), script=argv[index])


def _after_shell(
    words: Sequence[str], environment: Mapping[str, str], read: Read, depth: int
) -> Launch | None:
    """`-lc SCRIPT NAME ARGUMENT...`. Where blanks were lost, the script is all that follows."""
    for index, word in enumerate(words[:MAX_WRAPPER] if depth <= MAX_SHELLS else ()):
        if not word.startswith("-"):
            return None
        if re.fullmatch(r"-[a-z]*c", word):
            scripts = {
                "".join(words[index + 1 : index + 2]): words[index + 3 :],
                " ".join(words[index + 1 :]): (),
            }
            found = (
                recognise_script(script, environment, given, read, depth) for script, given in scripts.items()
            )
            return next((launch for launch in found if launch), None)
    return None


def _with_wrapper(launch: Launch, before: Sequence[str]) -> Launch:
    """`env A=1 B=2 python ...`, `conda run -n serve python ...`, `uv run vllm ...`"""
    found = {match[1]: match[2] for match in map(ASSIGNMENT.fullmatch, before) if match}
    if prefix := _conda_prefix(before):
        found |= {"CONDA_PREFIX": prefix, "PATH": f"{prefix}/bin:{found.get('PATH', DEFAULT_PATH)}"}
    if prefix := _uv_environment(before, found):
        found |= {"VIRTUAL_ENV": prefix, "PATH": f"{prefix}/bin"}  # it makes one where there is none
    return replace(launch, environment={**launch.environment, **found}) if found else launch


def _conda_prefix(before: Sequence[str]) -> str:
    """The environment of `/opt/conda/bin/conda run -n NAME` or `-p PREFIX`; "" where that cannot be told."""
    at = next((i for i, word in enumerate(before) if posixpath.basename(word) in CONDA), None)
    if at is None or "run" not in before[at:]:
        return ""
    options = _options(before[at:])
    prefix = options.get("-p") or options.get("--prefix") or ""
    name = options.get("-n") or options.get("--name") or ""
    root = posixpath.dirname(posixpath.dirname(before[at]))
    if prefix or not (name and root.startswith("/")):
        return prefix if prefix.startswith("/") else ""
    return root if name == "base" else f"{root}/envs/{name}"


def _uv_environment(before: Sequence[str], variables: Mapping[str, str]) -> str:
    """That of the project that `uv run --project DIR` means, seen from the working directory; else ""."""
    at = next((i for i, word in enumerate(before) if posixpath.basename(word) == "uv"), None)
    if at is None or "run" not in before[at:] or "--active" in before[at:]:
        return ""
    options = _options(before[at:])
    place = posixpath.join(options.get("--directory", ""), options.get("--project", ""))
    return posixpath.join(place, variables.get("UV_PROJECT_ENVIRONMENT", ".venv"))


def _options(words: Sequence[str]) -> dict[str, str]:
    """Each word with what follows it, or stands behind its `=`."""
    joined = (word.split("=", 1) for word in words if word.startswith("--") and "=" in word)
    return dict(pairwise(words)) | dict(joined)
