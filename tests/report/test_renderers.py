"""Every result has every format, and each format one way to be made."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from triage.report.documents import FLEET, KINDS, PLAIN, ROLLOUT, RUN
from triage.report.pages import PAGES
from triage.report.renderers import LINES, RENDERERS, load, renderer

ROOT = Path(__file__).parents[2] / "triage"
CALLS = [(kind, format) for kind, functions in RENDERERS.items() for format in functions]


def type_of(path: str) -> type:
    module, _, name = path.rpartition(".")
    found: type = getattr(import_module(module), name)
    return found


@pytest.mark.parametrize(("kind", "format"), CALLS)
def test_a_function_takes_the_result_that_it_is_listed_for(kind: str, format: str) -> None:
    function = load(RENDERERS[kind][format])
    tree = ast.parse(Path(import_module(function.__module__).__file__ or "").read_text())
    (found,) = [
        each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == function.__name__
    ]
    (argument,) = found.args.args
    assert argument.annotation is not None
    assert ast.unparse(argument.annotation) == kind.rpartition(".")[2]
    assert ast.unparse(found.returns) == ("Iterator[Text]" if format == LINES else "dict[str, Any]")  # type: ignore[arg-type]


def test_every_result_is_shown_as_text_and_as_json() -> None:
    assert [kind for kind, functions in RENDERERS.items() if not {LINES, "json"} <= functions.keys()] == []
    for kind in RENDERERS:
        assert type_of(kind).__module__ + "." + type_of(kind).__qualname__ == kind


def test_what_is_in_no_list_has_no_renderer() -> None:
    with pytest.raises(LookupError):
        renderer(object(), LINES)


def test_reports_are_made_of_documents() -> None:
    for path in PAGES.values():
        hints: dict[str, Any] = get_type_hints(load(path))
        assert hints["return"] is str


def test_commands_print_no_document_themselves() -> None:
    """What a command gives is shown by `console.show`; streams of records have no end to wait for."""
    spelled = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in (ROOT / "cli").rglob("*.py")
        for word in ('"schema"', "json.dumps")
        if word in path.read_text()
    ]
    assert spelled == ["cli/console.py: json.dumps"]


def test_every_schema_can_be_read_back() -> None:
    """A document that a renderer makes is one that `triage report` takes."""
    known = {*KINDS, RUN, FLEET, ROLLOUT, *PLAIN}
    made = {
        node.value
        for path in (ROOT / "report").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if node.value.startswith("triage.") and node.value.endswith("/1") and " " not in node.value
    }
    assert made <= known
