"""Which classes of a module run as one stage of a pipeline, read from their syntax."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from triage.scan.prefilter import STAGED

# What one stage hands to the next: SGLang's name, and vLLM's.
HANDED = ("pp_proxy_tensors", "intermediate_tensors")
_DRAFT = re.compile(r"(?i)draft|eagle|mtp|nextn")  # run beside the model, whole
_TOWER = re.compile(r"Vi(?:sion|T)|Audio")
_MAKERS = ("make_layers", "make_pp_layers")
_PLACEHOLDERS = ("PPMissingLayer", "Identity")
# A diffusion language model wants the logits of every position; it is served without a pipeline.
_DIFFUSION = b"return_full_logits=True"
EMBEDDINGS = ("embed_tokens", "word_embeddings")


@dataclass
class Module:
    """A module's classes. `marked` tells that its models can be dealt out at all."""

    tree: ast.Module
    data: bytes
    classes: dict[str, ast.ClassDef] = field(init=False)
    marked: bool = field(init=False)

    def __post_init__(self) -> None:
        self.classes = {node.name: node for node in self.tree.body if isinstance(node, ast.ClassDef)}
        self.marked = any(word in self.data for word in STAGED)

    def staged(self) -> Iterator[ast.ClassDef]:
        """The classes that may run as one stage; none where the engine refuses the model a pipeline.

        The engine looks at the arguments of `forward` of the class that the module enters by. A class
        without a `forward` of its own inherits one, or lends its methods to a class that has one.
        """
        if not self.marked or _DIFFUSION in self.data or not self._served():
            return
        for node in self.classes.values():
            plain = _DRAFT.search(node.name) or _TOWER.search(node.name)
            if not plain and self.takes(node) is not False:
                yield node

    @functools.cached_property
    def layer_parts(self) -> frozenset[str] | None:
        """The attributes and methods of the module's layers; None where another module defines them."""
        makers = [init for node in self.classes.values() if any(_makings(node)) for init in _inits(node)]
        names = {last(item.func) for init in makers for item in ast.walk(init) if isinstance(item, ast.Call)}
        layers = [self.classes[name] for name in names & self.classes.keys()]
        if not layers or any([last(base) for base in node.bases] != ["Module"] for node in layers):
            return None
        parts = [item for node in layers for item in ast.walk(node)]
        attributes = {item.attr for item in parts if isinstance(item, ast.Attribute)}
        return frozenset(attributes | {item.name for item in parts if isinstance(item, ast.FunctionDef)})

    def takes(self, node: ast.ClassDef) -> bool | None:
        """Does `forward` of a class take what a stage hands on? None where another module defines it."""
        for part in node.body:
            if isinstance(part, ast.FunctionDef) and part.name == "forward":
                names = [item.arg for item in (*part.args.args, *part.args.kwonlyargs)]
                return any(name in HANDED for name in names)
        for base in node.bases:
            known = self.classes.get(getattr(base, "id", ""))
            if known is not None and known is not node:
                return self.takes(known)
        return False if [last(base) for base in node.bases] == ["Module"] else None

    def _served(self) -> bool:
        entries = [
            name.id
            for part in self.tree.body
            if isinstance(part, ast.Assign) and any(last(t) == "EntryClass" for t in part.targets)
            for name in ast.walk(part.value)
            if isinstance(name, ast.Name)
        ]
        known = [self.classes[name] for name in entries if name in self.classes]
        return not known or any(self.takes(node) is not False for node in known)

    def has_foreign_embedding(self) -> bool:
        """Is the embedding a placeholder on the last stage?"""
        for method in (item for node in self.classes.values() for item in _inits(node)):
            parts = [item for node in ast.walk(method) if isinstance(node, ast.If) for item in node.orelse]
            if any(_is_placeholder(part) for part in parts):
                asks = (ast.unparse(node) for node in ast.walk(method) if isinstance(node, ast.BoolOp))
                return not any("is_last_rank" in text for text in asks)
        return False


def dealt(node: ast.ClassDef) -> bool:
    """Does a class make the layers of its stage only, and keep where they begin?"""
    return any(
        last(item) == "start_layer"
        for part, _ in _makings(node)
        for target in part.targets
        if isinstance(target, ast.Tuple)
        for item in target.elts
    )


def whole(node: ast.ClassDef) -> Iterator[ast.Call]:
    """Return where a class makes the layers of every stage."""
    for part, call in _makings(node):
        if [last(target) for target in part.targets] == ["layers"]:
            yield call


def last(node: ast.expr) -> str:
    """`a.b.pool` -> `pool`; "" for what has no name."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _inits(node: ast.ClassDef) -> Iterator[ast.FunctionDef]:
    return (part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == "__init__")


def _makings(node: ast.ClassDef) -> Iterator[tuple[ast.Assign, ast.Call]]:
    for part in (item for init in _inits(node) for item in ast.walk(init)):
        value = part.value if isinstance(part, ast.Assign) else None
        if isinstance(part, ast.Assign) and isinstance(value, ast.Call) and last(value.func) in _MAKERS:
            yield part, value


def _is_placeholder(node: ast.stmt) -> bool:
    """`self.embed_tokens = PPMissingLayer()`"""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and last(node.value.func) in _PLACEHOLDERS
        and any(last(target) in EMBEDDINGS for target in node.targets)
    )
