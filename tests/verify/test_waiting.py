"""What is done to a service that somebody else has just started: nothing, but to wait."""

from __future__ import annotations

import pytest

from tests.verify.conftest import Engine
from triage.verify.service.waiting import wait_until_settled


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "mode", "came"),
    [
        ("ready", "ok", (True, False)),
        ("dies", "ok", (False, True)),
        ("hangs", "ok", (False, False)),
        ("ready", "status 500", (False, False)),
    ],
)
def test_it_is_waited_for_until_it_serves_or_has_died(engine, begin: str, mode: str, came: tuple[bool, bool]):
    one: Engine = engine(begin, mode)
    one.service.start()
    run = one.service.state().run
    start = wait_until_settled(one.service, one.client, timeout=30 if any(came) else 5)
    assert (start.ready, start.died) == came
    assert (start.failure == "") is start.ready
    assert one.service.state().run == run


def test_one_that_was_never_started_has_died(engine):
    one: Engine = engine()
    start = wait_until_settled(one.service, one.client, timeout=5)
    assert (start.ready, start.died) == (False, True)
    assert start.failure == "it does not run: not started"
