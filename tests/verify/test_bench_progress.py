from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triage.verify.layouts.bench_progress import BenchProgress


def bench(*layouts: tuple[str, object]) -> dict[str, Any]:
    return {
        "schema": "triage.bench/1",
        "layouts": [{"name": name, "decode_rate": rate} for name, rate in layouts],
    }


def test_what_was_measured_is_there_after_each_layout(tmp_path: Path):
    kept = BenchProgress("gpu01", "kimi/a.service", tmp_path)
    assert (str(kept), kept.rates()) == ("", {})
    kept.write(bench(("tp8", 26.5)))
    kept.write(bench(("tp8", 26.5), ("pp8", None)))
    assert json.loads(kept.path.read_text())["layouts"][1]["name"] == "pp8"
    assert str(kept) == f"; what tp8, pp8 did is in {kept.path}"
    assert BenchProgress("gpu01", "kimi/a.service", tmp_path).rates() == {"tp8": 26.5}
    assert BenchProgress("gpu02", "kimi/a.service", tmp_path).rates() == {}


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '{"schema": "triage.bench/1"}', '{"schema": "triage.bench/1", "layouts": [1]}']
)
def test_what_is_none_of_ours_has_no_rates(tmp_path: Path, text: str):
    kept = BenchProgress("gpu01", "kimi", tmp_path)
    kept.path.write_text(text)
    assert kept.rates() == {}


def test_where_it_cannot_be_kept_that_is_said(tmp_path: Path):
    (tmp_path / "file").touch()
    kept = BenchProgress("gpu01", "kimi", tmp_path / "file")
    kept.write(bench(("tp8", 26.5)))
    assert str(kept).startswith("; what tp8 did could not be kept: writing")
