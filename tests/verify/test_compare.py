from __future__ import annotations

from dataclasses import replace

import pytest

from triage.verify.compare import compare, slower_start
from triage.verify.load.metrics import metrics_of
from triage.verify.model import Load, Metrics, Request, Start, StartPhase, Verification

START = Start("a1", 7, True, 40.0, ())


def figures(rate: float, throughput: float, ttft: float = 50.0, concurrency: int = 4) -> tuple[Metrics, ...]:
    """One repeat: a single stream, and `concurrency` of them."""
    plain = Metrics(
        concurrency=1,
        completed=8,
        failed=0,
        failures={},
        ttft_ms=ttft,
        itl_ms=1000 / rate,
        tpot_ms=1000 / rate,
        e2e_ms=900.0,
        decode_rate=rate,
        output_throughput=rate * 0.9,
        near_zero_gaps=0.0,
        prompt_tokens=64,
        max_tokens=32,
    )
    return plain, replace(plain, concurrency=concurrency, decode_rate=rate / 2, output_throughput=throughput)


def result(*repeats: tuple[Metrics, ...], **changed: object) -> Verification:
    whole = Verification(
        at="2026-05-12T14:00:00+00:00",
        deployment="sglang.service",
        engine="sglang",
        version="0.5.11",
        arguments={},
        patches=(),
        model="kimi",
        start=START,
        sample=" Paris.",
        loads=(),
        metrics=tuple(metrics for repeat in repeats for metrics in repeat),
        verdict="inconclusive",
        reason="",
    )
    return replace(whole, **changed)  # type: ignore[arg-type]


BEFORE = result(figures(26.1, 80.2), figures(26.3, 80.8), figures(26.2, 80.5))


def thrice(rate: float, throughput: float, ttft: float = 50.0, apart: float = 0.005) -> Verification:
    """Three repeats that are so far apart, relatively."""
    parts = (1 - apart, 1.0, 1 + apart)
    return result(*(figures(rate * part, throughput * part, ttft * part) for part in parts))


@pytest.mark.parametrize(
    ("now", "verdict"),
    [
        (thrice(40.5, 120.0), "better"),
        (thrice(26.0, 81.0), "same"),
        (thrice(20.0, 60.0), "worse"),
        (thrice(40.0, 80.5), "better"),  # one better, none worse
        (thrice(26.2, 80.5, ttft=500.0), "worse"),
        (thrice(40.0, 60.0), "inconclusive"),  # better and worse
        (thrice(26.2, 80.5, apart=0.03), "inconclusive"),  # repeats that differ too much to tell anything
        (thrice(29.0, 88.0, apart=0.06), "inconclusive"),
        (thrice(52.0, 160.0, ttft=25.0, apart=0.03), "better"),  # but not what is larger than that
    ],
)
def test_the_verdict_follows_differences_beyond_the_spread(now: Verification, verdict: str):
    comparison = compare(now, BEFORE)
    assert (comparison.verdict, len(comparison.changes)) == (verdict, 3)
    assert "decode rate at concurrency 1 26.2 -> " in comparison.reason


def test_the_reason_has_the_figures():
    comparison = compare(replace(thrice(40.5, 120.0), repeats="3 repeats: enough"), BEFORE)
    # the intervals: 26.2 +- 4.303 * 0.1 / sqrt(3), and 40.5 +- 4.303 * 0.2025 / sqrt(3)
    assert "decode rate at concurrency 1 26.2 -> 40.5 tok/s (+54.6%, spread 2.2%)" in comparison.reason
    assert comparison.reason.endswith("(3 repeats: enough)")
    change = comparison.changes[0]
    assert (change.before, change.now) == (pytest.approx(26.2), pytest.approx(40.5))
    assert change.relative == pytest.approx(0.5458, abs=1e-4)


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (replace(BEFORE, model="llama"), "the model was kimi, is llama"),
        (
            result(figures(40.0, 120.0, concurrency=8), figures(40.0, 120.0, concurrency=8)),
            "another concurrency or rate",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, rate=2.0) for one in BEFORE.metrics)),
            "another concurrency",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, arrivals="constant") for one in BEFORE.metrics)),
            "another concurrency or rate",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, output_lengths=(8, 32)) for one in BEFORE.metrics)),
            "another output length",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, prompt_lengths=(8, 64)) for one in BEFORE.metrics)),
            "another range of prompt lengths",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, completed=4) for one in BEFORE.metrics)),
            "another completed requests",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, max_tokens=64) for one in BEFORE.metrics)),
            "another output length",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, token_source="chunks") for one in BEFORE.metrics)),
            "another source of token counts",
        ),
        (
            replace(BEFORE, metrics=tuple(replace(one, prompt_tokens=128) for one in BEFORE.metrics)),
            "prompts of 64 tokens, now 128",
        ),
    ],
)
def test_runs_that_measure_different_things_are_not_compared(now: Verification, said: str):
    comparison = compare(now, BEFORE)
    assert (comparison.verdict, comparison.changes) == ("inconclusive", ())
    assert said in comparison.reason


def test_prompts_that_differ_by_a_word_or_two_are_alike():
    now = replace(BEFORE, metrics=tuple(replace(one, prompt_tokens=66) for one in BEFORE.metrics))
    assert compare(now, BEFORE).verdict == "same"


def test_failures_are_never_better_and_are_named():
    metrics = figures(99.0, 999.0)
    failed = (metrics[0], replace(metrics[1], completed=6, failed=2, failures={"error in stream": 2}))
    comparison = compare(result(metrics, failed), BEFORE)
    assert comparison.verdict == "failed"
    assert comparison.reason == "2 of 32 requests failed: error in stream (2)"
    assert compare(BEFORE, result(metrics, failed)).verdict == "inconclusive"


def test_a_service_that_did_not_start_failed_with_its_reason():
    now = replace(BEFORE, start=replace(START, ready=False, failure="died 63 s after the restart"))
    comparison = compare(now, BEFORE)
    assert (comparison.verdict, comparison.reason) == ("failed", "died 63 s after the restart")


def test_without_an_earlier_result_nothing_is_claimed():
    assert compare(BEFORE, None).verdict == "inconclusive"
    assert "first result" in compare(BEFORE, None).reason
    assert compare(replace(BEFORE, metrics=()), BEFORE).reason == "nothing was measured"


@pytest.mark.parametrize("side", ["now", "before"])
def test_bursts_allow_no_verdict(side: str):
    fast = thrice(40.5, 120.0)
    bursts = tuple(replace(one, near_zero_gaps=0.6) for one in (fast if side == "now" else BEFORE).metrics)
    now, before = (
        (replace(fast, metrics=bursts), BEFORE) if side == "now" else (fast, replace(BEFORE, metrics=bursts))
    )
    comparison = compare(now, before)
    assert comparison.verdict == "inconclusive"
    assert f"bursts {side} (60% of the gaps were near zero)" in comparison.reason
    assert len(comparison.changes) == 3


def test_one_repeat_tells_no_spread():
    assert compare(result(figures(90.0, 300.0)), BEFORE).verdict == "inconclusive"
    assert compare(
        result(figures(90.0, 300.0), figures(90.0, 300.0)), result(figures(26.0, 80.0))
    ).verdict == ("inconclusive")


def test_a_smaller_difference_is_told_when_asked_for():
    before, now = thrice(26.2, 80.5, apart=0.001), thrice(27.0, 80.5, apart=0.001)
    assert compare(now, before).verdict == "same"
    assert compare(now, before, 0.02).verdict == "better"


def at_a_rate(ttft: float, sent: float = 2.0) -> Verification:
    both = (replace(one, rate=one.concurrency // 2 and 2.0) for one in figures(26.2, 80.5))
    single, rated = both
    rated = replace(rated, ttft_ms=ttft, sent_rate=sent, pace="late" if sent < 2.0 else "")
    return result(*[(single, rated)] * 3)


def test_at_a_rate_the_latencies_are_compared():
    comparison = compare(at_a_rate(80.0), at_a_rate(40.0))
    assert comparison.verdict == "worse"
    assert [(change.figure, change.at) for change in comparison.changes[2:]] == [
        ("TTFT", "2 requests/s"),
        ("TPOT", "2 requests/s"),
    ]
    assert "TTFT at 2 requests/s 40.0 -> 80.0 ms" in comparison.reason


def test_a_rate_that_was_not_kept_allows_no_verdict():
    comparison = compare(at_a_rate(80.0, sent=1.5), at_a_rate(40.0))
    assert (comparison.verdict, comparison.reason.partition(":")[0]) == ("inconclusive", "now late")


def test_delivery_in_one_burst_is_seen_from_the_requests_on():
    burst = Request(0.0, (1.0, 1.0, 1.0001, 1.0002), 64, 4, "length")
    metrics = metrics_of(Load(1, 64, 4, "usage", 2.0, (burst,)))
    now = replace(BEFORE, metrics=(metrics, metrics))
    assert "bursts" in compare(now, now).reason


def begun(seconds: float, *phases: tuple[str, float], **more: bool) -> Start:
    return Start("i", 1, more.pop("ready", True), seconds, tuple(StartPhase(*one) for one in phases), **more)


BEGUN = begun(60, ("Load weight end", 40), ("KV Cache is allocated", 50), ("ready", 60))


def test_a_slower_start_is_said_with_the_phase_that_took_longer():
    slow = begun(120, ("Load weight end", 41), ("KV Cache is allocated", 105), ("ready", 120))
    assert list(slower_start(slow, BEGUN)) == [
        "the start took 120 s, 60 s the last time; most of it until 'KV Cache is allocated': 54 s more"
    ]
    assert list(slower_start(begun(90), BEGUN)) == ["the start took 90 s, 60 s the last time"]


@pytest.mark.parametrize(
    ("now", "before"),
    [
        (begun(70), BEGUN),  # within what starts differ
        (begun(9), begun(5)),
        (begun(90), None),
        (begun(90, ready=False), BEGUN),
        (begun(90, restarted=False), BEGUN),
    ],
)
def test_of_other_starts_nothing_is_said(now: Start, before: Start | None):
    assert list(slower_start(now, before)) == []
