"""Stage arithmetic against the engines' own functions and against Python's own lists."""

from __future__ import annotations

import itertools

import pytest

from triage.rules.arithmetic.stages import Stage, look_up, split


@pytest.mark.parametrize(
    ("scheme", "starts"),
    [
        # sglang up to 0.5.5, from 0.5.6, and vLLM: 61 layers over 8 stages, read off get_pp_indices.
        ("remainder-to-last", [0, 7, 14, 21, 28, 35, 42, 49]),
        ("remainder-to-last-ones", [0, 7, 14, 21, 29, 37, 45, 53]),
        ("remainder-before-last", [0, 7, 14, 22, 30, 38, 46, 54]),
    ],
)
def test_61_layers_over_8_stages(scheme, starts):
    stages = split(61, 8, scheme)
    assert [stage.start for stage in stages] == starts
    assert stages[-1].end == 61


@pytest.mark.parametrize("scheme", ["remainder-to-last", "remainder-to-last-ones", "remainder-before-last"])
def test_stages_are_a_partition(scheme):
    for layers in range(1, 70):
        for size in range(1, min(layers, 9) + 1):
            stages = split(layers, size, scheme)
            owned = [layer for stage in stages for layer in range(stage.start, stage.end)]
            assert owned == list(range(layers)), (layers, size)


def test_a_partition_of_the_user_counts():
    assert [stage.layers for stage in split(61, 3, "remainder-to-last", "20,6,35")] == [20, 6, 35]


@pytest.mark.parametrize("partition", ["20,6", "20,6,36", "a,b,c", "70,-15,6"])
def test_a_partition_that_does_not_fit(partition):
    with pytest.raises(ValueError, match=r"partition|invalid literal"):
        split(61, 3, "remainder-to-last", partition)


def test_look_up_is_python_list_indexing():
    """The oracle is a real list that holds global layer numbers."""
    for start, layers in itertools.product(range(30), range(1, 30)):
        stage = Stage(1, start, start + layers)
        held = list(range(stage.start, stage.end))
        found = look_up(stage, 0)
        try:
            layer = held[0 - stage.start]
        except IndexError:
            assert (found.outcome, found.layer) == ("raises", None)
        else:
            assert found.layer == layer
            assert found.outcome == ("own" if layer == 0 else "wrong")


def test_the_story():
    outcomes = [look_up(stage).outcome for stage in split(61, 8, "remainder-to-last-ones")]
    assert outcomes == ["own", "wrong"] + ["raises"] * 6


def test_two_stages_never_raise():
    assert [look_up(stage).outcome for stage in split(61, 2, "remainder-to-last-ones")] == ["own", "wrong"]
