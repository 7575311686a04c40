"""Workflows string rooms together; what prints stands above them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

WORKFLOWS = Path(__file__).parents[2] / "triage" / "workflows"
ABOVE = ("triage.report", "triage.cli", "typer", "rich")


@pytest.mark.parametrize("path", sorted(WORKFLOWS.glob("*.py")), ids=lambda path: path.stem)
def test_they_neither_print_nor_know_who_does(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [each.name for each in node.names] if isinstance(node, ast.Import) else []
        assert [name for name in names if name.startswith(ABOVE)] == []
        assert not (isinstance(node, ast.Call) and ast.unparse(node.func) == "print")
