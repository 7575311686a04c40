"""Imports stand at the top of a module, and in a function only where that saves something at the start."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.test_architecture import TRIAGE, modules

HEAVY = frozenset(
    (
        *(
            "asyncio",
            "cryptography",
            "http",
            "hyperscan",
            "jinja2",
            "libcst",
            "multiprocessing",
            "paramiko",
            "tempfile",
        ),
        *("pydantic", "rich", "typer", "yaml", "zstandard"),
    )
)
"""What takes ten milliseconds or more to import."""
LOG = TRIAGE.parent / "tests/corpus/vllm-0.32-port-in-use/log.log"
LOADED = """
import sys
sys.argv = ["triage", *sys.argv[1:]]
from triage.__main__ import main
try:
    main()
except SystemExit:
    pass
print()
print(*sys.modules)
"""

Import = ast.Import | ast.ImportFrom


def names(node: Import, known: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        each = (f"{node.module}.{alias.name}" for alias in node.names)
        yield from (name if name in known else str(node.module) for name in each)


def at_once(tree: ast.Module) -> Iterator[Import]:
    """The imports that run as a module is loaded: not in a function, and not for the type checker alone."""
    rest: list[ast.stmt] = list(tree.body)
    while rest:
        node = rest.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield node
        elif isinstance(node, ast.Try) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.dump(node)
        ):
            rest += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]


@cache
def direct() -> Mapping[str, frozenset[str]]:
    known = modules()
    found = {}
    for module, path in known.items():
        own = {name for node in at_once(ast.parse(path.read_text())) for name in names(node, known)}
        found[module] = frozenset(own | {module.rpartition(".")[0] or module})
    return found


@cache
def reached(module: str) -> frozenset[str]:
    seen: set[str] = set()
    rest = [module]
    while rest:
        name = rest.pop()
        if name not in seen:
            seen.add(name)
            rest += direct().get(name, ())
    return frozenset(seen)


def heavy(module: str) -> frozenset[str]:
    return HEAVY & {name.partition(".")[0] for name in reached(module)}


def loaded(*arguments: str) -> frozenset[str]:
    run = [sys.executable, "-c", LOADED, *arguments]
    said = subprocess.run(run, capture_output=True, text=True, cwd=TRIAGE.parent, check=False).stdout
    return frozenset(said.splitlines()[-1].split())


def test_an_import_in_a_function_saves_a_heavy_library_or_time_at_the_start() -> None:
    known = modules()
    helped = loaded("--help")
    loaded("diagnose", "--log", str(LOG))  # from now on its knowledge is in the cache
    started = loaded("diagnose", "--log", str(LOG))
    idle = []
    for module, path in known.items():
        if module in helped or module.startswith(("triage.cli", "triage.remote", "triage.__main__")):
            continue  # the command line loads what a command needs; a program on a host, what that host has
        functions = (
            node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)
        )
        for node in (each for function in functions for each in ast.walk(function)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                late = frozenset(names(node, known))
                lighter = any(heavy(name) - heavy(module) for name in late)
                if not (lighter or (module in started and not late <= started)):
                    idle.append(f"{path.relative_to(TRIAGE)}:{node.lineno}: {', '.join(late)}")
    assert "triage.rules.engine" in started
    assert idle == []
