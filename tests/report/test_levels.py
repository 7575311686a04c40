from __future__ import annotations

from typing import Any

from triage.report.levels import level, levels, rows


def one(concurrency: int, ttft: float | None, **more: Any) -> dict[str, Any]:
    figures = dict.fromkeys(("ttft_p99_ms", "itl_ms", "itl_p99_ms", "decode_rate"), None)
    whole = {"concurrency": concurrency, "ttft_ms": ttft, "completed": 8, "failed": 0, "failures": {}}
    return {**figures, **whole, "output_throughput": 90.0, **more}


def test_repeats_of_a_level_are_one_line():
    slow = one(4, 60.0, failed=2, failures={"timed out": 2}, output_throughput=70.0)
    found = levels([one(1, 20.0), slow, one(1, 22.0), one(4, None), one(256, 30.0, rate=2.0)])
    told = [(entry["level"], entry["repeats"], entry["ttft_ms"], entry["completed"]) for entry in found]
    assert told == [("1", 2, 21.0, 16), ("4", 2, 60.0, 16), ("2/s", 1, 30.0, 8)]
    assert (found[1]["failed"], found[1]["failures"], found[1]["output_throughput"]) == (
        2,
        {"timed out": 2},
        80.0,
    )


def test_what_the_engines_own_tool_measured_follows():
    tool = {"tool": "vllm bench serve", "metrics": [one(1, 25.0)], "note": "", "failure": ""}
    ours = {"metrics": [one(1, 20.0), one(1, 22.0)]}
    told = [(row["level"], row["by"], row["ttft_ms"]) for row in rows({**ours, "by_tool": tool})]
    assert told == [("1", "", 21.0), ("1", "vllm bench serve", 25.0)]
    assert len(list(rows(ours))) == len(list(rows({**ours, "by_tool": None}))) == 1


def test_a_document_from_before_there_were_rates():
    assert level({"concurrency": 4}) == "4"
    assert level({"concurrency": 256, "rate": 0.5}) == "0.5/s"
