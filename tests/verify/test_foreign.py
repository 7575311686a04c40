"""What other tools wrote, in our words: of 12 completions of 20 tokens, at 4 streams."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.errors import UsageError
from triage.verify.compare import compare
from triage.verify.foreign import read_foreign, verification_of

FILES = {path.name.partition("-")[0]: path for path in (Path(__file__).parent / "foreign").glob("*.json*")}


@pytest.mark.parametrize(
    ("tool", "version", "model", "failed"),
    [
        ("sglang", "", "", 0),
        ("vllm", "", "tiny", 1),
        ("guidellm", "0.8.1", "tiny", 0),
        ("aiperf", "0.13.0", "tiny", 0),
    ],
)
def test_each_tool_is_known_by_what_it_writes(tool: str, version: str, model: str, failed: int):
    found = read_foreign(FILES[tool])
    (metrics,) = found.metrics
    assert (found.tool, found.version, found.model) == (tool, version, model)
    assert (metrics.concurrency, metrics.completed, metrics.failed) == (4, 12, failed)
    assert metrics.max_tokens == 20


@pytest.mark.parametrize("tool", ["vllm", "guidellm", "aiperf"])
def test_the_same_thing_measured_has_the_same_figures(tool: str):
    """A server that takes 50 ms to its first token and 20 ms to each other."""
    (metrics,) = read_foreign(FILES[tool]).metrics
    assert metrics.ttft_ms == pytest.approx(52, abs=1)
    assert metrics.tpot_ms == pytest.approx(20, abs=0.1)
    assert metrics.decode_rate == pytest.approx(50, abs=0.2)
    assert metrics.output_throughput == pytest.approx(180, abs=1)
    if metrics.itl_ms is not None:
        assert metrics.itl_ms == pytest.approx(20.3, abs=0.1)
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
    assert verification_of(read_foreign(FILES["vllm"]), "x", "").verdict == "failed"


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


@settings(max_examples=60, deadline=None)
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
