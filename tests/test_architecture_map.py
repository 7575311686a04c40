"""docs/architecture.md is a map of the package that the code agrees with."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_architecture import ROOMS

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "triage"
TEXT = (ROOT / "docs" / "architecture.md").read_text("utf-8")


def section(title: str) -> str:
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_map_has_every_package_and_no_other():
    rows = re.findall(r"^\| `([\w/]+)/` \| (.+) \|$", section("The map"), re.MULTILINE)
    mapped = [name for name, _ in rows]
    there = {
        path.parent.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.parent != PACKAGE
    }
    assert len(mapped) == len(set(mapped))
    assert set(mapped) == there


def test_the_order_has_every_top_level_package():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert set(order()) == packages | {"rules.authoring"}


def test_the_order_is_the_one_that_imports_are_held_to():
    rooms = [room.removeprefix("triage.") for room in ROOMS if room not in ("triage", "triage.__main__")]
    assert order() == rooms


def test_every_file_it_names_exists():
    named = re.findall(r"`((?:\w+/)+\w+\.py)`", TEXT)
    assert len(named) > 10
    for name in named:
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


def order() -> list[str]:
    """The packages of the document in the order in which they may import each other."""
    block = re.search(r"^```order\n(.*?)^```$", section("What may import what"), re.MULTILINE | re.DOTALL)
    assert block is not None
    return block[1].split()
