"""Options that are declared once, and the command that gets them as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from triage.cli.option_groups import with_groups


@dataclass(frozen=True)
class Colours:
    light: Annotated[str, typer.Option("--light", "-l", envvar="A_LIGHT", help="By day.")] = "white"
    dark: Annotated[bool, typer.Option("--dark", help="By night.")] = False


seen: list[object] = []
app = typer.Typer(rich_markup_mode=None)


@app.command()
@with_groups
def paint(name: str, first: int = 1, *, colours: Colours, last: int = 2) -> None:
    """Paint NAME."""
    seen.append((name, first, colours, last))


def test_the_command_gets_one_value() -> None:
    for words, colours in (
        ([], Colours()),
        (["-l", "red"], Colours("red")),
        (["--dark"], Colours(dark=True)),
    ):
        result = CliRunner().invoke(app, ["wall", "--last", "5", *words])
        assert result.exit_code == 0, result.output
        assert seen.pop() == ("wall", 1, colours, 5)
    assert CliRunner().invoke(app, ["wall"], env={"A_LIGHT": "blue"}).exit_code == 0
    assert seen.pop() == ("wall", 1, Colours("blue"), 2)


def test_the_options_stand_where_the_parameter_stands() -> None:
    shown = CliRunner().invoke(app, ["--help"]).output
    places = [shown.index(each) for each in ("Paint NAME", "--first", "--light", "--dark", "--last")]
    assert places == sorted(places)
    assert "By day." in shown
    assert "A_LIGHT" in shown
