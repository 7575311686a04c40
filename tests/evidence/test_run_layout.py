"""A unit that was edited after the run that failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from triage.evidence.discovery.run_layout import as_it_ran
from triage.evidence.model import Deployment, Layout

NOW = Deployment(
    "kimi.service",
    engine="sglang",
    unit="kimi.service",
    arguments={"model-path": "/srv/models/a", "pp-size": "4"},
    layout=Layout(pp=4),
    model="/srv/models/a",
)


def test_the_run_s_own_layout_and_model_count() -> None:
    facts = {"pp_size": "8", "tp_size": "2", "model_path": "/srv/models/b"}
    ran = as_it_ran(NOW, facts)
    assert (ran.layout, ran.model) == (Layout(tp=2, pp=8), "/srv/models/b")
    assert ran.disagreements == (
        "the unit was changed after this run: --tp-size 2 then, 1 now, --pp-size 8 then, 4 now, "
        "the model /srv/models/b then, /srv/models/a now",
    )
    assert ran.arguments == NOW.arguments


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"pp_size": "4", "tp_size": "1", "model_path": "/srv/models/a"},
        {"pp_size": "²"},
        {"pp_size": "9" * 5000},
        {"ep_size": "4", "dp_size": "4"},  # not given: an engine sets them by itself
    ],
)
def test_what_agrees_is_no_disagreement(facts: dict[str, str]) -> None:
    assert as_it_ran(NOW, facts).disagreements == ()
    assert as_it_ran(NOW, facts).layout.pp == 4


def test_a_size_that_was_given_and_is_another_is_one() -> None:
    given = replace(NOW, arguments={**NOW.arguments, "dp-size": "2"}, layout=Layout(pp=4, dp=2))
    (said,) = as_it_ran(given, {"dp_size": "4"}).disagreements
    assert said.endswith("--dp-size 4 then, 2 now")


def test_flags_are_spelled_as_the_engine_does() -> None:
    vllm = replace(NOW, engine="vllm", unit="", arguments={"pipeline-parallel-size": "4"})
    (said,) = as_it_ran(vllm, {"pp_size": "2"}).disagreements
    assert said == "the deployment was changed after this run: --pipeline-parallel-size 2 then, 4 now"


def test_earlier_disagreements_are_kept_and_twice_changes_nothing() -> None:
    ran = as_it_ran(replace(NOW, disagreements=("another",)), {"pp_size": "8"})
    assert len(ran.disagreements) == 2
    assert as_it_ran(ran, {"pp_size": "8"}) == ran


def test_a_log_alone_disagrees_with_nothing() -> None:
    assert as_it_ran(Deployment("log"), {"pp_size": "8"}).disagreements == ()
