"""Every example of every shipped patch is a test."""

from __future__ import annotations

import pytest

from triage.patching.edits import look
from triage.patching.load import load_patches
from triage.patching.schema import Example, Patch

CASES = [
    pytest.param(patch, example, id=f"{patch.id}: {example.title}")
    for patch in load_patches()
    for example in patch.examples
]


@pytest.mark.parametrize(("patch", "example"), CASES)
def test_example(patch: Patch, example: Example) -> None:
    assert run(patch, example.before) == (example.before if example.after is None else example.after)


@pytest.mark.parametrize(("patch", "example"), CASES)
def test_a_second_pass_changes_nothing(patch: Patch, example: Example) -> None:
    once = run(patch, example.before)
    assert run(patch, once) == once


@pytest.mark.parametrize("patch", load_patches(), ids=lambda patch: patch.id)
def test_examples_show_a_change_and_a_near_miss(patch: Patch) -> None:
    assert {example.after is None for example in patch.examples} == {True, False}


def run(patch: Patch, text: str) -> str:
    for edit in patch.edits:
        new = look(edit, "example.py", text.encode()).new
        text = text if new is None else new.decode()
    return text
