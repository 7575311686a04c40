"""What a scan finds, as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from triage.patching.model import Plan, Site

if TYPE_CHECKING:
    from triage.patching.schema import Patch

Kind = Literal[
    "layer-zero-buffer",  # the KV pool is asked for a literal layer 0
    "layer-zero",  # a part of layers[0], which another stage may own
    "layer-before",  # a part of the layer before the one that a stage starts with
    "all-layers",  # a walk over all layers that takes a part of each
    "all-layers-called",  # a walk over all layers that calls each and takes two results
    "stale-layer",  # a walk over all layers that goes on with the last one that is here
    "whole-model",  # the layers are not dealt out, although the model takes what a stage hands on
    "foreign-part",  # a part of the embedding, which one stage has
    "tied-head",  # the head is the embedding, and they are on different stages
    "unguarded-parameter",  # load_weights looks up a name that the stage may not have
]
Confidence = Literal["high", "medium"]

REASONS: Mapping[Kind, str] = {
    "layer-zero-buffer": "a pipeline stage's pool does not hold layer 0",
    "layer-zero": "on every stage but the first, layers[0] is a placeholder without parts",
    "layer-before": "the layer before a stage's first one is a placeholder without parts",
    "all-layers": "the layers of other stages are placeholders without parts",
    "all-layers-called": "a placeholder gives back one of its arguments, not two results",
    "stale-layer": "for a layer of another stage it goes on with the one before",
    "whole-model": "every stage makes and runs all layers",
    "foreign-part": "only one stage has it; elsewhere it is a placeholder without parts",
    "tied-head": "the last stage has no embedding: its head becomes a placeholder",
    "unguarded-parameter": "the checkpoint names weights of other stages, which have no parameter here",
}


@dataclass(frozen=True)
class ScanFinding:
    """One place that assumes that this process owns the whole model."""

    kind: Kind
    confidence: Confidence
    site: Site
    where: str  # the qualified name of the class and function around it

    @property
    def reason(self) -> str:
        return REASONS[self.kind]


@dataclass(frozen=True)
class ScanResult:
    """`plans` are those of known defects that are there, `findings` the places that no patch covers."""

    root: str
    files: int  # that were read
    plans: tuple[tuple[Patch, Plan], ...] = ()
    findings: tuple[ScanFinding, ...] = ()
    unread: tuple[tuple[str, str], ...] = ()  # path, and why
    target: str = ""  # what the user called it
