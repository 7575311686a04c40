"""The shape of a family: faults of one kind, told by place and words, whoever raised them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from triage.common.patterns import literals
from triage.rules.base import Id, Regex, RulePart
from triage.rules.schema import Category

LEAST = 3
"""Characters that a pattern of a message must ask for: less stands in any text."""


class Clue(RulePart):
    """What a fault of the family looks like. All that is given must hold.

    `message` is looked for in what the fault says, with its class before it and the exceptions that led to
    it; upper and lower case are the same. `exception` is the class. `frames` are globs of which one must fit
    a file of the traceback. `phase` is what the engine did last. `unless` must not stand in the message.
    """

    message: Regex = ""
    exception: Regex = ""
    frames: tuple[str, ...] = ()
    phase: Regex = ""
    unless: Regex = ""

    @model_validator(mode="after")
    def _says_something(self) -> Clue:
        if not (self.message or self.exception or self.frames):
            raise ValueError("a clue needs at least one of message, exception, frames")
        if self.message and literals(self.message) < LEAST and not (self.frames or self.exception):
            raise ValueError(f"the message {self.message!r} asks for less than {LEAST} characters")
        return self


class LookNext(RulePart):
    """What to look at next, and the command that shows it; `HOST` and `MODEL` stand for their names."""

    summary: str
    command: str = ""


class FamilyCase(RulePart):
    """A fault that belongs to the family, or, as a near miss, does not: its class, message and files."""

    exception: str = ""
    message: str
    frames: tuple[str, ...] = ()
    phase: str = ""


class FaultFamily(RulePart):
    """Faults of one kind. `title` says in words what the kind is, as a reason for the category."""

    id: Id
    category: Category
    title: str
    clues: Annotated[tuple[Clue, ...], Field(min_length=1)]
    look: Annotated[tuple[LookNext, ...], Field(min_length=1)]
    cases: Annotated[tuple[FamilyCase, ...], Field(min_length=1)]
    near_misses: Annotated[tuple[FamilyCase, ...], Field(min_length=1)]

    @field_validator("category")
    @classmethod
    def _tells(cls, category: Category) -> Category:
        if category == "unknown":
            raise ValueError("a family has a category other than unknown")
        return category
