"""Rules that were read and checked before."""

from __future__ import annotations

from pydantic import TypeAdapter

from triage.common import patterns
from triage.common.kept_models import KeptModels
from triage.engines import ENGINES
from triage.rules import base, checks, schema
from triage.rules.base import CHECKED
from triage.rules.schema import Rule

RULES = KeptModels(
    "rules",
    TypeAdapter(tuple[Rule, ...]),
    (base, checks, patterns, schema),
    lambda: ENGINES,
    CHECKED,
)
