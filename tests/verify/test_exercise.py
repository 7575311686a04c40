"""Answers compared with earlier ones. Faults of a service are in tests/workflows/test_verify.py."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from tests.verify.server import FakeServer
from tests.verify.test_compare import BEFORE
from triage.hosts.local import LocalConnection
from triage.verify.load.client import Client
from triage.verify.load.exercise import answer_before, changed_answers, exercise
from triage.verify.service.readiness import PROMPT


def test_the_answers_are_kept():
    with FakeServer() as server:
        client = Client(LocalConnection(), sys.executable, "127.0.0.1", server.port)
        found = exercise(client, client.complete((PROMPT,), 4), earlier=" b" * 50)
    assert (found.sample, found.long_sample, found.failure) == (" a" * 16, " a" * 16, "")
    assert found.notes == (
        f"before the restart the answer was {(' b' * 30 + '...')!r}, now it is {' a' * 16!r}",
    )
    assert answer_before(client) == ""  # it does not listen any more


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (
            {"sample": " Paris."},
            {"sample": " Lyon."},
            "it answers differently: ' Paris.' before, ' Lyon.' now",
        ),
        (
            {"long_sample": "x" * 70},
            {"long_sample": "y"},
            f"after a long prompt it answers differently: '{'x' * 60}...' before, 'y' now",
        ),
    ],
)
def test_another_answer_to_the_same_question_is_said(then, now, said: str):
    assert list(changed_answers(replace(BEFORE, **now), replace(BEFORE, **then))) == [said]
    assert list(changed_answers(replace(BEFORE, **now), replace(BEFORE, **now))) == []
    unknown = dict.fromkeys(then, "")
    assert list(changed_answers(replace(BEFORE, **unknown), replace(BEFORE, **then))) == []
    assert list(changed_answers(replace(BEFORE, **now), None)) == []
