"""--var: a value is read as the type of the default."""

from __future__ import annotations

import pytest

from triage.common.errors import UsageError
from triage.playbook.variables import resolve

VARS = '{text: "", count: 4, share: 0.5, go: false, list: [1], needed: null}'


@pytest.fixture
def mine(playbook):
    return playbook("- {name: a, do: diagnose}", VARS)


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ("text=4", "text", "4"),
        ("text=a=b", "text", "a=b"),
        ("text=", "text", ""),
        ("text={{ count }}", "text", "{{ count }}"),
        ("count=8", "count", 8),
        ("share=1", "share", 1.0),
        ("share=0.25", "share", 0.25),
        ("go=true", "go", True),
        ("list=[1, 8]", "list", [1, 8]),
        ("needed=true", "needed", "true"),
    ],
)
def test_a_value_has_the_type_of_its_default(mine, given, name, value):
    values = resolve(mine, ["needed=x", given])
    assert values[name] == value
    assert type(values[name]) is type(value)


@pytest.mark.parametrize(
    "given",
    [
        "count=many",
        "count=1.5",
        "count=true",
        "count=",
        "go=1",
        "go=maybe",
        "share=x",
        "share=.inf",
        "list=1",
        "list=[[1]]",
        "list=[",
        "nope=1",
        "count",
        "=1",
    ],
)
def test_anything_else_is_an_error(mine, given):
    with pytest.raises(UsageError, match="playbook mine"):
        resolve(mine, ["needed=x", given])


def test_one_without_a_default_must_be_given(mine):
    with pytest.raises(UsageError, match="needed must be given") as error:
        resolve(mine, [])
    assert error.value.next == "add --var needed=..."
