"""The shape of a playbook file. Unknown keys are errors; `check` judges the names in it."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

Verb = Literal["wait", "diagnose", "patch", "verify", "bench", "rollback", "capture", "set", "stop"]


def plain_value(value: Any) -> Any:
    """Return the value itself. Raises ValueError for anything but scalars and lists of them."""
    if value is None or _is_scalar(value):
        return value
    if isinstance(value, list) and all(map(_is_scalar, value)):
        return value
    raise ValueError("neither text, a number, true, false, nor a list of these")


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, str)) or (isinstance(value, float) and math.isfinite(value))


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("it is empty")
    return text


Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
Title = Annotated[str, Field(max_length=120), AfterValidator(_not_blank)]
PlainValue = Annotated[Any, BeforeValidator(plain_value)]


class PlaybookPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Retry(PlaybookPart):
    """How often to try a failed step again, and how many seconds to wait before each."""

    count: int = Field(ge=1, le=10)
    seconds: float = Field(default=0.0, ge=0, le=600, allow_inf_nan=False)


class Step(PlaybookPart):
    """One step: what to `do` and `with` what, `when`, and what to call its result.

    `when` is an expression; the texts in `with` may hold `{{ expressions }}`.
    """

    name: Title
    do: Verb
    with_: dict[str, PlainValue] = Field(default_factory=dict, alias="with", max_length=32)
    when: Annotated[str, AfterValidator(_not_blank)] | None = None
    register_: Name | None = Field(default=None, alias="register")
    retry: Retry | None = None
    consent: bool = False


class MainStep(Step):
    """A step of the playbook itself: when it fails, `on_failure` is run, and the playbook fails."""

    on_failure: list[Step] = Field(default_factory=list, max_length=20)


class PlaybookFile(PlaybookPart):
    """`vars` are defaults; one without a default (null) must be given."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
    description: Annotated[str, AfterValidator(_not_blank)]
    vars: dict[Name, PlainValue] = Field(default_factory=dict, max_length=100)
    steps: list[MainStep] = Field(min_length=1, max_length=100)
