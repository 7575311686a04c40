"""The shape of a patch file. Unknown keys are errors; every error names file and key.

A patch is one semantic change, made of edits. An edit finds code by a pattern in Python syntax in
which `$NAME` stands for any expression and `$...` for any further arguments, and replaces only the
parts in which `find` and `replace` differ. A statement may become a block, or get one around it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)

from triage.patching.syntax import check_block, check_pattern, is_block, is_statement, metavariables, nests

Id = Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)]
Dotted = Annotated[str, Field(pattern=r"^[^\W\d]\w*(\.[^\W\d]\w*)*$", max_length=256)]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]
Pattern = Annotated[Line, AfterValidator(check_pattern)]
Block = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=2000),
    AfterValidator(check_block),
]


class PatchPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Condition(PatchPart):
    """What a metavariable may stand for: `a.b.pool` and `pool` both have the last name `pool`."""

    last_name: Annotated[str, Field(pattern=r"^[^\W\d]\w*$")]


class Edit(PatchPart):
    """One shape of code and what it becomes, in any of `modules`.

    `inside` is the qualified name of the class or function that it must stand in; the same shape
    elsewhere in the module makes the patch ambiguous. `replace` may be a block where `find` is a
    statement; with that statement in it, the rest is put around it. `fixed` are shapes of the fix,
    beside `replace` itself; where the statement is kept, one that does not hold it may stand anywhere
    in `inside` and counts for all. `suspect` are shapes with the same defect that this edit cannot
    rewrite: one of them makes the patch ambiguous too. `sites` is how often the shape occurs over all
    modules. `alternative` marks one of several spellings, of which a release has exactly one. `common`
    says that both shapes occur for other reasons too: only sites in `inside` count, and the fix's shape
    alone proves nothing. `optional` marks an edit that some releases do not need.
    """

    modules: Annotated[tuple[Dotted, ...], Field(min_length=1)]
    inside: Dotted | None = None
    find: Pattern
    replace: Block
    where: dict[str, Condition] = {}
    fixed: tuple[Block, ...] = ()
    suspect: tuple[Pattern, ...] = ()
    sites: Annotated[int, Field(ge=1, le=100)] = 1
    alternative: bool = False
    common: bool = False
    optional: bool = False

    @model_validator(mode="after")
    def _metavariables_are_bound(self) -> Edit:
        found = metavariables(self.find)
        for name, words in (("replace", metavariables(self.replace)), ("where", set(self.where))):
            if unknown := sorted(words - found):
                raise ValueError(f"{name}: ${unknown[0]} does not occur in find")
        if self.replace == self.find:
            raise ValueError("replace: it is the same as find")
        if "$..." in self.replace and "$..." not in self.find:
            raise ValueError("replace: $... does not occur in find")
        if is_block(self.replace) and not is_statement(self.find):
            raise ValueError("replace: statements can only take the place of a statement")
        blocks = [block for block in (self.replace, *self.fixed) if is_block(block)]
        if blocks and not self.inside:
            raise ValueError("inside: statements in a row are looked for in a class or function")
        if any("$..." in block for block in blocks):
            raise ValueError("$... stands in a call, not in a block")
        if any(nests(self.find, block) for block in blocks):
            raise ValueError("replace: the statement that is found stays at the level of the block, or goes")
        return self

    @property
    def keeps(self) -> bool:
        """Does the statement stay, with others around it?"""
        from triage.patching.pattern import kept_at

        return is_block(self.replace) and kept_at(self.find, self.replace) is not None


class Requirement(PatchPart):
    """Something that must hold elsewhere in the tree: the class that serves has an attribute.

    `subclass_of` is the base of all classes that can serve, looked for in `modules`. The one that does
    is `named`, or named by the context under the key `named_by`; where the context is silent, every
    subclass must have the attribute. With `indexed_in`, the class that serves must also subtract the
    attribute to index its buffers in that method. With `absent` the class must not have it.
    """

    says: Line
    subclass_of: Dotted
    modules: Annotated[tuple[Dotted, ...], Field(min_length=1)]
    named: Annotated[str, Field(pattern=r"^[^\W\d]\w*$")] | None = None
    named_by: Annotated[str, Field(pattern=r"^[a-z][a-z_]*$")] | None = None
    attribute: Annotated[str, Field(pattern=r"^[^\W\d]\w*$")]
    indexed_in: Annotated[str, Field(pattern=r"^[^\W\d]\w*$")] | None = None
    absent: bool = False

    @model_validator(mode="after")
    def _names_one_way(self) -> Requirement:
        if (self.named is None) == (self.named_by is None):
            raise ValueError("give either named or named_by")
        if self.absent and (self.indexed_in or self.named is None):
            raise ValueError("absent: it goes with named alone")
        return self


class CodeShape(PatchPart):
    """Something that must hold elsewhere in the tree: one of some shapes stands in one of the modules."""

    says: Line
    modules: Annotated[tuple[Dotted, ...], Field(min_length=1)]
    stands: Annotated[tuple[Pattern, ...], Field(min_length=1)]


def _kind(requirement: object) -> str:
    given = requirement if isinstance(requirement, dict) else vars(requirement)
    return "shape" if "stands" in given else "class"


class Example(PatchPart):
    """A module's text before and after; without `after`, it must stay as it is."""

    title: Line
    before: str
    after: str | None = None


class Patch(PatchPart):
    """One patch file. `affected` is a hint for people; the state is decided on syntax."""

    id: Id
    title: Line
    distribution: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    explanation: str = ""
    edits: Annotated[tuple[Edit, ...], Field(min_length=1)]
    requires: tuple[
        Annotated[
            Annotated[Requirement, Tag("class")] | Annotated[CodeShape, Tag("shape")], Discriminator(_kind)
        ],
        ...,
    ] = ()
    affected: Annotated[str, Field(max_length=100)] = ""
    references: tuple[Annotated[str, Field(pattern=r"^https://")], ...] = ()
    examples: Annotated[tuple[Example, ...], Field(min_length=1)]

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module that planning may read, once, in order."""
        named = [module for edit in self.edits for module in edit.modules]
        for requirement in self.requires:
            if isinstance(requirement, Requirement):
                named.append(requirement.subclass_of.rpartition(".")[0])
            named += requirement.modules
        return tuple(dict.fromkeys(named))

    @property
    def package(self) -> str:
        """The top-level package that the patch is about."""
        return self.edits[0].modules[0].partition(".")[0]
