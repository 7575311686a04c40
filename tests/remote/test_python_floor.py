"""The programs that are sent to hosts run under the oldest Python that they promise: that of RHEL 8 is 3.6.

An interpreter that old is not to be had here, so they are held against its grammar, and against a list
of what the standard library got since ("What's New in Python 3.7" to 3.13).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from triage import remote
from triage.evidence.catalogue.python import PythonTree
from triage.remote import Program, program_text

PACKAGE = Path(__file__).parents[2] / "triage" / "remote"
PROGRAMS = [each for each in vars(remote).values() if isinstance(each, Program)]
FLOORS = {each.name: each.minor for each in PROGRAMS} | {"owner": 6, "patch_standalone": 6}

SINCE = {
    **dict.fromkeys(("dataclasses", "contextvars", "importlib.resources", "__future__.annotations"), 7),
    **dict.fromkeys(("asyncio.create_task", "asyncio.run", "contextlib.nullcontext", "time.time_ns"), 7),
    **dict.fromkeys(("time.monotonic_ns", "time.perf_counter_ns", "importlib.metadata", "shlex.join"), 8),
    **dict.fromkeys(("functools.cached_property", "math.prod", "math.dist", "math.comb", "math.isqrt"), 8),
    **dict.fromkeys(("os.memfd_create", "os.posix_spawn", "socket.create_server", "statistics.fmean"), 8),
    **dict.fromkeys(("signal.raise_signal", "signal.strsignal", "statistics.quantiles"), 8),
    **dict.fromkeys(("functools.cache", "os.pidfd_open", "os.waitstatus_to_exitcode", "graphlib"), 9),
    **dict.fromkeys(("zoneinfo", "signal.pidfd_send_signal", "math.lcm", "math.nextafter", "ast.unparse"), 9),
    **dict.fromkeys(("itertools.pairwise", "contextlib.aclosing", "os.eventfd", "types.NoneType"), 10),
    **dict.fromkeys(("tomllib", "hashlib.file_digest", "contextlib.chdir", "asyncio.timeout"), 11),
    **dict.fromkeys(("itertools.batched", "math.sumprod", "os.process_cpu_count"), 12),
}
METHODS_SINCE = {"isascii": 7, "removeprefix": 9, "removesuffix": 9, "is_relative_to": 9, "bit_count": 10}
ARGUMENTS_SINCE = {"capture_output": 7, "text": 7, "missing_ok": 8, "dirs_exist_ok": 8, "strict": 10}


def used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names of the standard library that a program uses, and since which 3.x they are there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((item.name, SINCE.get(item.name, 0)) for item in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{item.name}" for item in node.names]
            yield from ((name, max(SINCE.get(name, 0), SINCE.get(node.module or "", 0))) for name in names)
        elif isinstance(node, ast.Attribute):
            name = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else node.attr
            yield name, max(SINCE.get(name, 0), METHODS_SINCE.get(node.attr, 0))
        elif isinstance(node, ast.Call):
            yield from ((f"{word.arg}=", ARGUMENTS_SINCE.get(word.arg or "", 0)) for word in node.keywords)


def too_new(program: str, minor: int) -> list[str]:
    tree = ast.parse(program, feature_version=(3, minor))
    return [name for name, since in used(tree) if since > minor]


def test_every_program_has_its_floor() -> None:
    assert {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"} == set(FLOORS)
    assert all(FLOORS[each.before] <= each.minor for each in PROGRAMS if each.before)


@pytest.mark.parametrize(("name", "minor"), FLOORS.items())
def test_a_program_takes_no_newer_python_than_it_promises(name: str, minor: int) -> None:
    program = program_text(name)
    assert f"Python 3.{minor} or newer" in " ".join(program[:1000].split())
    assert too_new(program, minor) == []
    linted = f'"triage/remote/{name}.py" = "py3{max(minor, 7)}"'  # ruff knows none older
    assert linted in (PACKAGE.parents[1] / "pyproject.toml").read_text()


def test_the_question_for_the_tree_is_understood_by_old_interpreters() -> None:
    assert too_new(PythonTree("python").stdin().decode(), 6) == []


@pytest.mark.parametrize(
    "program",
    ["if (a := 1): pass", "def f(a, /): pass", "match x:\n case 1: pass", "import shlex\nshlex.join(x)"],
)
def test_what_is_too_new_is_seen(program: str) -> None:
    try:
        assert too_new(program, 6) == ["shlex.join"]
    except SyntaxError:
        assert "shlex" not in program
