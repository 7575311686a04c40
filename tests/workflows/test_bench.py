"""What a bench recommends. That it restores what was there: test_dropin.py, tests/e2e/test_bench.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.verify.test_compare import figures, result
from triage.evidence.catalogue.systemd import ExecCommand
from triage.evidence.model import Layout
from triage.verify.service.dropin import content, quoted
from triage.workflows.bench import MeasuredLayout, recommended

TP8, PP8, EP8 = Layout(tp=8), Layout(pp=8), Layout(tp=8, ep=8)


def measured(layout: Layout, *repeats: tuple[float, float], **more: object) -> MeasuredLayout:
    return MeasuredLayout(
        layout, result(*(figures(rate, throughput) for rate, throughput in repeats), **more)
    )


def test_the_layout_that_answers_one_user_fastest_is_recommended():
    best, reason = recommended(
        [measured(TP8, *[(26, 100), (27, 100)] * 2), measured(PP8, *[(38, 90), (39, 90)] * 2)]
    )
    assert best == PP8
    assert reason == "tokens/s of one stream: pp8 38.5, tp8 26.5"


def test_among_those_that_do_alike_the_one_that_serves_most():
    slow = measured(EP8, (10, 900), (10, 900))
    alike = (measured(TP8, *[(40, 100), (44, 100)] * 2), measured(PP8, *[(42, 200), (41, 210)] * 2))
    best, reason = recommended([slow, *alike])
    assert best == PP8
    assert "tp8, pp8 do not differ by more than repeats do" in reason


def test_at_a_rate_the_one_that_answers_soonest():
    """All that keep the rate serve the same tokens/s."""

    def at_a_rate(layout: Layout, throughput: float, e2e: float) -> MeasuredLayout:
        alone, together = figures(40, throughput)
        rated = replace(together, concurrency=256, rate=8.0, e2e_ms=e2e)
        return MeasuredLayout(layout, result(*[(alone, rated)] * 2))

    best, reason = recommended([at_a_rate(TP8, 101, 900.0), at_a_rate(PP8, 100, 700.0)])
    assert best == PP8
    assert reason.endswith("ms to a whole answer at 8 requests/s: tp8 900.0, pp8 700.0")


def test_the_difference_that_is_to_be_told_is():
    layouts = [measured(TP8, *[(100, 900)] * 3), measured(PP8, *[(103, 100)] * 3)]
    assert recommended(layouts)[0] == TP8
    assert recommended(layouts, 0.02)[0] == PP8


def test_a_clear_difference_is_one_although_the_slow_one_varies():
    best, reason = recommended([measured(TP8, (427, 580), (437, 560)), measured(PP8, (25, 60), (71, 190))])
    assert (best, reason) == (TP8, "tokens/s of one stream: tp8 432.0, pp8 48.0")


def test_where_tokens_come_in_bursts_whole_answers_count():
    steady = measured(TP8, (40, 100), (41, 100))
    alone, together = figures(900, 90)
    repeat = (replace(alone, output_throughput=20.0, near_zero_gaps=0.9), together)
    best, reason = recommended([steady, MeasuredLayout(PP8, result(repeat, repeat))])
    assert best == TP8
    assert "of whole answers: those of pp8 come in bursts" in reason


def test_one_that_failed_is_never_recommended():
    dead = measured(PP8, (90, 900))
    start = replace(dead.verification.start, ready=False)
    dead = replace(dead, verification=replace(dead.verification, start=start, metrics=()))
    assert recommended([dead, measured(TP8, (5, 5))])[0] == TP8
    assert recommended([dead]) == (None, "no layout became ready and answered every request")


def test_one_that_died_after_its_load_is_never_recommended():
    dead = measured(PP8, (90, 900))
    dead = replace(dead, verification=replace(dead.verification, verdict="failed"))
    assert recommended([dead, measured(TP8, (5, 5))])[0] == TP8


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("--pp-size", '"--pp-size"'),
        ("a b", '"a b"'),
        ('{"x": "y"}', '"{\\"x\\": \\"y\\"}"'),
        ("100%", '"100%%"'),
        ("$HOME", '"$HOME"'),
        ("a\\b\nExecStart=/bin/evil", '"a\\\\b\\x0aExecStart=/bin/evil"'),
    ],
)
def test_an_argument_stays_one_argument(word: str, written: str):
    assert quoted(word) == written
    assert content(ExecCommand("/bin/x", ("x", word), frozenset())).splitlines()[2:] == [
        "ExecStart=",
        f'ExecStart=@"/bin/x" "x" {written}',
    ]
