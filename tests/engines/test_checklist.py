"""docs/engines.md asks for every field that an engine has, and for no other."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from triage.engines import engine

PAGE = Path(__file__).parents[2] / "docs" / "engines.md"
LINES = (engine.VersionLine, engine.LogFact, engine.PhaseWords, engine.ReadyLine)
PARTS = (
    *(
        engine.Engine,
        engine.ServerCommand,
        engine.Package,
        engine.Environment,
        engine.Log,
        engine.ServerProcesses,
    ),
    *(engine.RequestCounters, engine.Drain, engine.Benchmark, engine.Pipeline),
)


def entries(text: str) -> list[str]:
    """Of each entry of a checklist, the names before its colon and the text behind them."""
    return re.findall(r"^- \[ \] (.*)$", text, re.MULTILINE)


def names_in(entry: str) -> list[str]:
    return re.findall(r"`(\w+)`", entry.partition(":")[0])


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_each_part_has_its_checklist(part: type):
    section = re.split(r"^### ", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    text = next(each for each in section if each.startswith(f"{part.__name__}\n"))
    listed = [name for each in entries(text) if not re.search("` of a `", each) for name in names_in(each)]
    assert sorted(listed) == sorted(field.name for field in fields(part))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.__name__)
def test_each_kind_of_line_has_its_entry(line: type):
    (entry,) = [each for each in entries(PAGE.read_text("utf-8")) if f"of a `{line.__name__}`" in each]
    assert names_in(entry) == [*(field.name for field in fields(line)), line.__name__]


def test_no_class_is_left_out():
    classes = {each for each in vars(engine).values() if hasattr(each, "__dataclass_fields__")}
    assert classes == {*PARTS, *LINES}
