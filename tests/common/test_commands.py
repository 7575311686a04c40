"""Commands of triage's own are built from their words, so that options can be put into them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from triage.common.commands import command
from triage.common.errors import RefusedError

PACKAGE = Path(__file__).parents[2] / "triage"


def test_it_is_ready_to_paste() -> None:
    shown = command("patch", "gpu01", "--unit", "a b.service", "--apply")
    assert str(shown) == "triage patch gpu01 --unit 'a b.service' --apply"
    assert shown.argv == ("triage", "patch", "gpu01", "--unit", "a b.service", "--apply")
    assert str(shown.without("--apply")) == "triage patch gpu01 --unit 'a b.service'"
    assert (
        str(command("patch status", "gpu01").plus("--ledger", "/x"))
        == "triage patch status gpu01 --ledger /x"
    )
    assert str(command("diagnose --help")) == "triage diagnose --help"


def test_the_options_of_the_connection_stand_behind_the_host() -> None:
    options = ("-F", "my config")
    reached = command("patch rollback", "ops@gpu01:22", "--id", "x").reaching(options)
    assert str(reached) == "triage patch rollback ops@gpu01:22 -F 'my config' --id x"
    for without_a_host in (command("rules list"), command("diagnose HOST"), command("explain", "", "gpu01")):
        assert without_a_host.reaching(options) == without_a_host


def test_an_error_names_prose_or_a_command() -> None:
    for next in ("wait for it, then again", command("patch status", "gpu01")):
        assert RefusedError("applying", "x", "it is locked", next).next == next


def test_no_command_with_words_that_are_filled_in_is_spelled_as_text() -> None:
    spelled = [
        f"{path.relative_to(PACKAGE)}:{line}" for path in PACKAGE.rglob("*.py") for line in _texts(path)
    ]
    assert spelled == []


def _texts(path: Path) -> Iterator[int]:
    """The lines of f-strings that begin as a command of triage does."""
    verbs = {"diagnose", "patch", "verify", "bench", "capture", "run", "scan", "links", "hosts", "history"}
    for node in ast.walk(ast.parse(path.read_text())):
        first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else None
        words = str(first.value).split()[:2] if isinstance(first, ast.Constant) else []
        if words[:1] == ["triage"] and verbs & set(words[1:]):
            yield node.lineno
