from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from triage.common.problems import problems_of, spelled


class One(BaseModel):
    kind: Literal["one"]


class Two(BaseModel):
    kind: Literal["two"]


class File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str = ""
    number: float = 0
    count: int = Field(0, ge=1, le=9)
    switch: bool = False
    names: list[str] = Field([], max_length=2)
    table: dict[str, str] = {}
    rules: tuple[str, ...] = ()
    role: Literal["cause", "benign"] = "cause"
    name: str = Field("", pattern="^[a-z]+$")
    inner: One | None = None
    either: Annotated[One | Two, Field(discriminator="kind")] | None = None
    checked: str = ""

    @field_validator("checked")
    @classmethod
    def _checked(cls, value: str) -> str:
        if value:
            raise ValueError("it cannot be so")
        return value


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({"colour": "red"}, "colour: there is no such key"),
        ({"text": 3}, "text: expected text, not 3"),
        ({"number": "many"}, 'number: expected a number, not "many"'),
        ({"count": 1.5}, "count: expected a whole number, not 1.5"),
        ({"count": 0}, "count: expected at least 1, not 0"),
        ({"count": 10}, "count: expected at most 9, not 10"),
        ({"switch": "yes"}, 'switch: expected true or false, not "yes"'),
        ({"names": "a"}, 'names: expected a list, not "a"'),
        ({"names": ["a", "b", "c"]}, 'names: expected at most 2 of them, not ["a", "b", "c"]'),
        ({"rules": "mine"}, 'rules: expected a list, not "mine"'),
        ({"table": ["a"]}, 'table: expected keys with values, not ["a"]'),
        ({"role": "x"}, "role: expected 'cause' or 'benign', not \"x\""),
        ({"name": "A"}, 'name: expected text like ^[a-z]+$, not "A"'),
        ({"inner": {}}, "inner.kind: it is missing"),
        ({"inner": 5}, "inner: expected keys with values, not 5"),
        ({"either": {"kind": "x"}}, "either: its 'kind' is none of 'one', 'two'"),
        ({"either": {}}, "either: its 'kind' is missing"),
        ({"checked": "x"}, "checked: it cannot be so"),
        ({"text": "x" * 100, "colour": 1}, "colour: there is no such key"),
    ],
)  # fmt: skip
def test_a_problem_is_told_in_plain_words(data: dict[str, object], told: str):
    with pytest.raises(ValidationError) as caught:
        File.model_validate(data)
    assert [f"{key}: {reason}" for key, reason in problems_of(caught.value)] == [told]


def test_no_message_of_pydantic_is_left_in_the_models_that_people_fill():
    """Wrong in every place at once: nothing speaks of inputs and tuples."""
    from triage.playbook.schema import PlaybookFile
    from triage.rules.schema import Rule

    wrong = {"name": 1, "steps": [{"do": "x", "with": 3, "retry": {"count": 99}}], "id": [], "remedies": {}}
    for model in (PlaybookFile, Rule):
        with pytest.raises(ValidationError) as caught:
            model.model_validate(wrong)
        for _, reason in problems_of(caught.value):
            assert not any(word in reason for word in ("nput", "uple", "Value error", "valid")), reason


@pytest.mark.parametrize("value", [{1: object()}, [float("nan")], {"a": {(1, 2): 3}}])
def test_whatever_stands_there_can_be_spelled(value: object):
    assert 0 < len(spelled(value)) <= 60
