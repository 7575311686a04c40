from __future__ import annotations

from dataclasses import replace

import pytest

from triage.verify.load.metrics import metrics_of, percentile
from triage.verify.model import Load, Request


def request(sent: float, *chunks: float, tokens: int | None = None, error: str = "") -> Request:
    return Request(sent, chunks, 7, len(chunks) if tokens is None else tokens, "length", error)


def load(*requests: Request, wall: float = 2.0, concurrency: int = 1) -> Load:
    return Load(concurrency, 8, 5, "usage", wall, requests)


def test_figures_of_hand_made_times():
    metrics = metrics_of(
        load(
            request(0.0, 0.10, 0.12, 0.14, 0.18, 0.22),
            request(1.0, 1.30, 1.31, 1.33, 1.35, 1.40),
            request(0.5, 0.70, 0.71, 0.73, 0.76, 0.90),
            concurrency=2,
        )
    )
    assert metrics.completed == 3
    assert metrics.failed == 0
    assert metrics.ttft_ms == pytest.approx(200)  # of 100, 300, 200
    assert metrics.e2e_ms == pytest.approx(400)  # of 220, 400, 400
    assert metrics.tpot_ms == pytest.approx(30)  # (220-100)/4, (400-300)/4, (400-200)/4
    assert metrics.decode_rate == pytest.approx(1 / 0.030)
    assert metrics.itl_ms == pytest.approx(20)  # the middle of twelve gaps
    assert metrics.output_throughput == pytest.approx(15 / 2.0)
    assert metrics.effective_concurrency == pytest.approx((0.22 + 0.4 + 0.4) / 2.0)
    assert metrics.near_zero_gaps == 0
    assert metrics.prompt_tokens == 7
    assert (metrics.max_tokens, metrics.token_source, metrics.concurrency) == (5, "usage", 2)


def test_tokens_and_not_chunks_divide_the_time_per_token():
    metrics = metrics_of(load(request(0.0, 0.1, 0.2, 0.3, tokens=9)))
    assert metrics.tpot_ms == pytest.approx(25)
    assert metrics.itl_ms == pytest.approx(100)
    assert metrics.output_throughput == pytest.approx(4.5)


def test_one_token_has_no_time_per_token():
    metrics = metrics_of(load(request(0.0, 0.1), wall=0.1))
    assert (metrics.tpot_ms, metrics.itl_ms, metrics.decode_rate) == (None, None, None)
    assert metrics.ttft_ms == pytest.approx(100)
    assert metrics.output_throughput == pytest.approx(10)


def test_failed_requests_are_counted_by_kind_and_measured_not_at_all():
    good = request(0.0, 0.1, 0.2)
    metrics = metrics_of(
        load(
            good,
            request(0.0, 5.0, 9.0, error="error in stream: out of memory"),
            request(0.0, 5.0, error="error in stream: gone"),
            request(0.0, error="no finish_reason"),
        )
    )
    assert (metrics.completed, metrics.failed) == (1, 3)
    assert metrics.failures == {"error in stream": 2, "no finish_reason": 1}
    alone = metrics_of(load(good))
    assert replace(metrics, failed=0, failures={}) == alone


def test_nothing_completed():
    metrics = metrics_of(load(request(0.0, error="timed out"), wall=0.0))
    assert (metrics.completed, metrics.failed, metrics.output_throughput) == (0, 1, 0.0)
    assert metrics.ttft_ms is metrics.itl_ms is metrics.tpot_ms is metrics.e2e_ms is None
    assert metrics.prompt_tokens == 8  # as asked for: nobody counted


def test_bursts_are_gaps_below_half_a_millisecond():
    metrics = metrics_of(load(request(0.0, 1.0, 1.0, 1.0004, 1.001, 1.0016)))
    assert metrics.near_zero_gaps == pytest.approx(0.5)


def at_rate(rate: float, *requests: Request, most: int = 256) -> Load:
    return Load(most, 8, 5, "usage", 10.0, requests, rate=rate)


def test_a_rate_that_was_kept():
    kept = metrics_of(at_rate(2.0, *(request(0.5 * n, 0.5 * n + 0.2, 0.5 * n + 0.4) for n in range(9))))
    assert kept.sent_rate == pytest.approx(2.0)
    assert kept.served_rate == pytest.approx(2.0)
    assert kept.pace == ""
    assert metrics_of(load(request(0.0, 0.1, 0.2))).sent_rate is None


def test_a_service_that_falls_behind():
    slow = at_rate(2.0, *(request(0.5 * n, 1.0 * n + 0.2, 1.0 * n + 0.4) for n in range(9)))
    assert metrics_of(slow).served_rate == pytest.approx(1.0)
    assert metrics_of(slow).pace == "at 2 requests/s the service falls behind: 1/s ended"


def test_a_long_last_answer_is_no_service_that_falls_behind():
    requests = [request(0.5 * n, 0.5 * n + 0.2, 0.5 * n + 1.2) for n in range(9)]
    requests[-1] = request(4.0, 4.2, 6.0)
    assert metrics_of(at_rate(2.0, *requests)).pace == ""


def test_a_rate_that_was_not_kept():
    late = at_rate(2.0, *(request(0.6 * n, 0.6 * n + 0.2) for n in range(9)))
    assert metrics_of(late).pace == "asked for 2 requests/s, sent 1.7/s: the client was late"
    held = at_rate(2.0, *(request(1.0 * n, 1.0 * n + 2.9) for n in range(9)), most=3)
    assert metrics_of(held).pace == "asked for 2 requests/s, sent 1/s: 3 ran at once, the most allowed"


def test_percentiles_lie_between_the_closest_ranks():
    assert percentile([], 99) is None
    assert percentile([3.0], 99) == 3.0
    assert percentile([4.0, 1.0, 3.0, 2.0], 50) == pytest.approx(2.5)
    assert percentile(list(range(101)), 99) == pytest.approx(99)
