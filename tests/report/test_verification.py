"""What `triage verify` prints of its result."""

from __future__ import annotations

import pytest

from tests.verify.test_compare import result
from triage.report.verification import lines


@pytest.mark.parametrize(
    ("known", "heading"),
    [
        ({}, "sglang.service · sglang 0.5.11 · kimi"),
        ({"model": ""}, "sglang.service · sglang 0.5.11"),
        ({"model": "", "version": "", "engine": ""}, "sglang.service"),
    ],
)
def test_what_is_not_known_leaves_no_gap_in_the_heading(known: dict[str, str], heading: str) -> None:
    assert next(lines(result(**known))).plain == heading
