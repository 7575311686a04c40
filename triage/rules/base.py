"""What the parts of a rule file have in common: no unknown keys, regular expressions that compile, ids."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationInfo

from triage.common.patterns import backtracking

CHECKED = {"checked": True}  # validation context of rules whose patterns were compiled before


def _regex(pattern: str, info: ValidationInfo) -> str:
    if info.context == CHECKED:
        return pattern
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if slow := backtracking(pattern, whole=info.field_name == "function"):
        raise ValueError(f"it may take very long on a log that somebody made for it: {slow}")
    return pattern


def _one_group(pattern: str) -> str:
    if pattern and re.compile(pattern).groups != 1:
        raise ValueError("it needs one group: the number")
    return pattern


Regex = Annotated[str, AfterValidator(_regex)]
Capture = Annotated[Regex, AfterValidator(_one_group)]
ID = r"^[a-z0-9]+(-[a-z0-9]+)*$"
Id = Annotated[str, Field(pattern=ID, max_length=64)]


class RulePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)
