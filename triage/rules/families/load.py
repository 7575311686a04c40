"""FaultFamily files -> families, kept as rules are."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from pydantic import TypeAdapter

from triage.common import patterns
from triage.common.kept_models import KeptModels
from triage.common.yaml_files import load_model
from triage.rules import base
from triage.rules import schema as rule_schema
from triage.rules.base import CHECKED
from triage.rules.families import schema
from triage.rules.families.schema import FaultFamily

KNOWLEDGE = Path(__file__).parent / "knowledge"
FAMILIES = KeptModels(
    "families", TypeAdapter(tuple[FaultFamily, ...]), (base, patterns, rule_schema, schema), context=CHECKED
)


@lru_cache(maxsize=4)
def load_families(directory: Path = KNOWLEDGE) -> tuple[FaultFamily, ...]:
    """All families of a directory, ordered by id. Raises UsageError for a broken file."""
    files = sorted(directory.glob("*.yaml"))
    known = FAMILIES.recall(files)
    if known is None:
        known = tuple(
            sorted((load_model(path, FaultFamily, "family") for path in files), key=lambda one: one.id)
        )
        FAMILIES.remember(files, known)
    return known
