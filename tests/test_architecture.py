"""What may import what: rooms in the order in which data goes, and no circle between modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

TRIAGE = Path(__file__).parents[1] / "triage"
ROOMS = (
    *("triage", "triage.common", "triage.remote", "triage.engines", "triage.logs", "triage.hosts"),
    *("triage.evidence", "triage.patching", "triage.rules", "triage.explain", "triage.scan"),
    *("triage.verify", "triage.playbook", "triage.workflows", "triage.rules.authoring", "triage.report"),
    "triage.cli",
    "triage.__main__",
)
"""Every room, after all those that it may import; "triage" is the version alone."""


def modules() -> Mapping[str, Path]:
    return {
        ".".join(path.relative_to(TRIAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in TRIAGE.rglob("*.py")
    }


def imported(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ours that a module imports, also in a function and for the type checker alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import by the full name"
            each = (f"{node.module}.{alias.name}" for alias in node.names)
            names = [name if name in known else str(node.module) for name in each]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "triage")


def room(module: str) -> str:
    """The innermost room that a module lies in."""
    return max((each for each in ROOMS[1:] if f"{module}.".startswith(f"{each}.")), key=len, default=module)


def imports() -> Mapping[str, frozenset[str]]:
    known = modules()
    return {name: frozenset(imported(path, known)) - {name} for name, path in known.items()}


def test_every_module_lies_in_a_room_and_every_room_has_one() -> None:
    assert {room(module) for module in modules()} == set(ROOMS)


def test_no_module_imports_its_way_back_to_itself() -> None:
    try:
        TopologicalSorter(imports()).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from None


def test_no_room_imports_a_later_one() -> None:
    upward = [
        f"{module} imports {other}"
        for module, others in imports().items()
        for other in others
        if ROOMS.index(room(other)) > ROOMS.index(room(module))
    ]
    assert upward == []


def test_a_name_of_a_class_means_one_thing() -> None:
    found: dict[str, list[str]] = {}
    for module, path in modules().items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(module)
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
