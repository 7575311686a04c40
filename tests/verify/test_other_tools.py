"""What other tools wrote, in our words: of 12 completions of 20 tokens, at 4 streams."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bounds import many
from triage.common.errors import UsageError
from triage.verify.compare import compare
from triage.verify.load.other_tools import read_foreign, verification_of

FOREIGN = Path(__file__).parent / "foreign"
FILES = {
    "sglang": FOREIGN / "sglang-0.4.6.post1.jsonl",
    "newer sglang": FOREIGN / "sglang-0.5.10.post1.jsonl",
    "vllm": FOREIGN / "vllm-0.32.0.json",
    "guidellm": FOREIGN / "guidellm-0.8.1.json",
    "aiperf": FOREIGN / "aiperf-0.13.0.json",
}


@pytest.mark.parametrize(
    ("name", "version", "model"),
    [
        ("sglang", "", ""),
        ("newer sglang", "0.5.10.post1", "tiny"),
        ("vllm", "", "tiny"),
        ("guidellm", "0.8.1", "tiny"),
        ("aiperf", "0.13.0", "tiny"),
    ],
)
def test_each_tool_is_known_by_what_it_writes(name: str, version: str, model: str):
    found = read_foreign(FILES[name])
    (metrics,) = found.metrics
    assert (found.tool, found.version, found.model) == (name.split()[-1], version, model)
    assert (metrics.concurrency, metrics.completed, metrics.failed) == (4, 12, 0)
    assert metrics.max_tokens == 20


@pytest.mark.parametrize("tool", ["vllm", "guidellm", "aiperf"])
def test_the_same_thing_measured_has_the_same_figures(tool: str):
    """A server that takes 50 ms to its first token and 20 ms to each other."""
    (metrics,) = read_foreign(FILES[tool]).metrics
    assert metrics.ttft_ms == pytest.approx(53, abs=2)
    assert metrics.tpot_ms == pytest.approx(20.1, abs=0.2)
    assert metrics.decode_rate == pytest.approx(49.8, abs=0.4)
    assert metrics.output_throughput == pytest.approx(179, abs=2)
    if metrics.itl_ms is not None:
        assert metrics.itl_ms == pytest.approx(20.3, abs=0.2)
    assert (metrics.itl_ms is None) == (tool == "guidellm")


def test_lines_of_a_sweep_are_loads(tmp_path: Path):
    line = FILES["sglang"].read_text().strip()
    wider = line.replace('"max_concurrency": 4', '"max_concurrency": 16')
    (tmp_path / "sweep.jsonl").write_text(f"{line}\n\n{wider}\n")
    assert [one.concurrency for one in read_foreign(tmp_path / "sweep.jsonl").metrics] == [4, 16]


def test_as_a_result_it_is_compared_like_ours():
    ours = verification_of(read_foreign(FILES["aiperf"]), "sglang.service", "2026-05-12")
    assert (ours.at, ours.start.ready, ours.start.restarted) == ("2026-11-29T20:25:53.523187", True, False)
    assert compare(ours, ours).verdict == "inconclusive"
    assert "one repeat" in compare(ours, ours).reason


def test_requests_that_failed_are_no_result(tmp_path: Path):
    told = FILES["vllm"].read_text().replace('"failed": 0', '"failed": 1')
    (tmp_path / "vllm.json").write_text(told)
    found = verification_of(read_foreign(tmp_path / "vllm.json"), "x", "")
    assert (found.verdict, found.at) == ("failed", "2026-11-29T23:19:36")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[]",
        "[" * 9999,
        "\xff",
        '{"benchmarks": [], "metadata": {}}',
        '{"benchmarks": 3, "metadata": 4}',
        '{"completed": "x", "output_throughput": 1, "total_output_tokens": 1, "median_ttft_ms": 1}',
    ],
)
def test_what_none_of_them_wrote_is_said(tmp_path: Path, content: str):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError, match="of another tool"):
        read_foreign(tmp_path / "x.json")


@settings(max_examples=many(60), deadline=None)
@given(tool=st.sampled_from(sorted(FILES)), data=st.data())
def test_whatever_stands_in_its_place(
    tool: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    """A result, or a UsageError; nothing else."""
    value = json.loads(FILES[tool].read_text())
    place = value
    while isinstance(place, (dict, list)) and place:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if data.draw(st.booleans()) or not isinstance(place[key], (dict, list)):
            place[key] = data.draw(st.sampled_from([None, -1, "x", [], {}, float("nan"), 1e999, True]))
            break
        place = place[key]
    path = tmp_path_factory.mktemp("foreign") / "x.json"
    path.write_text(json.dumps(value))
    with contextlib.suppress(UsageError):
        read_foreign(path)
