"""The layout of a deployment is said where something tells it."""

from __future__ import annotations

from dataclasses import replace

from tests.rules.world import STORY, fault, incident
from triage.evidence.model import Deployment, Layout
from triage.report.layout import layout_in_words

QUIET, RANKED = incident(fault()), incident(fault(), fault(ranks=("TP1",)))


def test_sizes_and_one_rank() -> None:
    assert layout_in_words(STORY, [RANKED]) == "pp8"
    assert layout_in_words(replace(STORY, layout=Layout()), [QUIET]) == "one rank"


def test_nothing_is_said_where_nothing_tells() -> None:
    assert layout_in_words(Deployment("log", engine="vllm"), [QUIET]) == ""
    assert layout_in_words(Deployment("log"), []) == ""


def test_a_log_that_names_ranks_is_not_of_one() -> None:
    assert layout_in_words(replace(STORY, layout=Layout()), [QUIET, RANKED]) == ""
