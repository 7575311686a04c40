"""A diagnosis without a rule reads the source; with a rule that stands it does not."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.command import triage
from tests.explain.tree import install, line_of
from triage.common.errors import UsageError
from triage.evidence.recorded import LogEvidence
from triage.logs.model import LogSource
from triage.report import json as as_json
from triage.report import text
from triage.workflows.diagnose import diagnose, load_knowledge
from triage.workflows.explaining import why

LOG = """\
[2026-05-12 14:03:40] server_args=ServerArgs(model_path='/models/x', tp_size=16, kv_cache_dtype='auto')
[2026-05-12 14:03:44 TP3] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/x/lib/python3.12/site-packages/sglang/srt/model_runner.py", line {runner}, in __init__
    self.layer = Attention(hf_config, self.tp, "on")
  File "/opt/x/lib/python3.12/site-packages/sglang/srt/layer.py", line {layer}, in __init__
    raise ValueError(
ValueError: the number of heads (40) must be divisible by the ranks (16)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path / "site")


def log(root: Path) -> LogSource:
    runner = line_of(root, "sglang/srt/model_runner.py", "self.layer = Attention")
    layer = line_of(root, "sglang/srt/layer.py", "raise ValueError(")
    return LogSource("log", LOG.format(runner=runner, layer=layer).encode())


def test_the_value_of_the_run_and_its_place_in_the_answer(root: Path) -> None:
    known = replace(load_knowledge(), rules=())
    report = diagnose(LogEvidence("log"), known, "", log(root), source=root)
    (found,) = as_json.diagnosis(report)["incidents"]
    assert found["verdict"] == {"category": "divisibility", "certainty": "possible", "basis": "family"}
    assert found["explained"]["site"]["values"] == {"num_heads": "40", "tp_size": "16"}
    (option,) = (end for end in found["explained"]["ends"] if end["kind"] == "option")
    assert (option["name"], option["value"]) == ("--tensor-parallel-size", "16")
    out = io.StringIO()
    text.render(report, Console(file=out, width=80))
    assert "WHY, FROM THE SOURCE" in out.getvalue()
    assert "40 % 16 != 0: it holds" in out.getvalue()


def test_a_rule_that_stands_goes_first_and_alone(root: Path) -> None:
    report = diagnose(LogEvidence("log"), load_knowledge(), "", log(root), source=root)
    (found,) = report.incidents
    assert (found.verdict.basis == "rule") is (found.explained is None)


def test_without_a_source_nothing_is_explained(root: Path) -> None:
    report = diagnose(LogEvidence("log"), replace(load_knowledge(), rules=()), "", log(root))
    assert report.incidents[0].explained is None


def test_the_command_for_a_line(root: Path) -> None:
    line = line_of(root, "sglang/srt/server_args.py", "raise ValueError(f")
    done = triage("why", f"sglang/srt/server_args.py:{line}", "--source", str(root), "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["schema"], told["ends"][0]["name"]) == ("triage.why/1", "--kv-cache-dtype")


@pytest.mark.parametrize("words", [("--source", "/nowhere"), ("--source", "/tmp")])
def test_a_source_without_an_engine_is_refused_before_anything_is_read(
    root: Path, words: tuple[str, str]
) -> None:
    (root / "log").write_bytes(bytes(log(root).data))
    done = triage("diagnose", "--log", str(root / "log"), *words)
    assert (done.returncode, "looking for an engine in" in done.stderr) == (2, True)


@pytest.mark.parametrize("place", ["x.py", "x.py:0x", "nowhere.py:3", "sglang/srt/layer.py:2", "a.txt:3"])
def test_what_is_no_place_is_refused(root: Path, place: str) -> None:
    with pytest.raises(UsageError) as caught:
        why(place, root)
    assert caught.value.next
