"""A fault and its source: the site, the conditions with this run's values, and the settings behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explain.tree import install, line_of
from triage.engines import ENGINES
from triage.explain.code import Code
from triage.explain.explain import explain, explain_line
from triage.explain.model import Explained
from triage.logs.model import Fault, Frame, Position
from triage.patching.trees import DirectoryTree

SETTINGS = ENGINES["sglang"].package.settings
LAYER, RUNNER, ARGS = "sglang/srt/layer.py", "sglang/srt/model_runner.py", "sglang/srt/server_args.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return install(tmp_path)


def frame(root: Path, file: str, words: str, function: str) -> Frame:
    line = line_of(root, file, words)
    code = (root / file).read_text().splitlines()[line - 1].strip()
    return Frame(f"/opt/x/lib/python3.12/site-packages/{file}", line, function, code)


def told(root: Path, type: str, message: str, *frames: Frame, **run: str) -> Explained:
    fault = Fault("exception", type, message, Position("log", 1), frames=frames)
    found = explain(fault, DirectoryTree(root), SETTINGS, run, "sglang")
    assert found is not None
    return found


def heads(root: Path, **run: str) -> Explained:
    return told(
        root,
        "ValueError",
        "the number of heads (40) must be divisible by the ranks (16)",
        frame(root, RUNNER, "self.layer = Attention", "__init__"),
        frame(root, LAYER, "raise ValueError(", "__init__"),
        **run,
    )


def test_the_values_of_the_run_are_read_back_from_the_message(root: Path) -> None:
    assert dict(heads(root).site.values) == {"num_heads": "40", "tp_size": "16"}
    assert heads(root).site.kind == "raise"


def test_the_condition_is_computed_with_them(root: Path) -> None:
    first, second = heads(root).guards
    assert (first.code, first.filled, first.holds) == ("num_heads % tp_size != 0", "40 % 16 != 0", True)
    assert second.code == "not (mode == 'off')"
    assert heads(root).holds


def test_it_is_followed_through_the_caller_to_the_option_and_to_the_model(root: Path) -> None:
    ends = {(end.kind, end.name): end for end in heads(root, tp_size="16").ends}
    option = ends["option", "--tensor-parallel-size"]
    assert (option.value, option.default) == ("16", "1")
    assert [step.partition(" ")[0].rpartition("/")[2].partition(":")[0] for step in option.path] == [
        "layer.py",
        "model_runner.py",
        "model_runner.py",
    ]
    assert ("config", "config.json:num_attention_heads") in ends


def test_the_nearest_values_that_would_do(root: Path) -> None:
    (option,) = (end for end in heads(root, tp_size="16").ends if end.kind == "option")
    assert option.nearest == ("20", "10", "8", "5")


def test_a_condition_that_would_not_hold_speaks_against_a_value(root: Path) -> None:
    found = told(
        root,
        "ValueError",
        "the number of heads (40) must be divisible by the ranks (8)",
        frame(root, LAYER, "raise ValueError(", "__init__"),
    )
    assert found.guards[0].holds is False
    assert not found.holds


def test_an_assertion_is_a_condition_that_failed(root: Path) -> None:
    found = told(root, "AssertionError", "plan 7 is none", frame(root, LAYER, "assert self.plan", "at"))
    assert (found.site.kind, dict(found.site.values)) == ("assert", {"self.plan": "7"})
    assert found.guards[0].holds is True
    assert [(end.kind, end.name) for end in found.ends] == [("environment", "SGLANG_PLAN")]


def test_a_failing_expression_is_followed_by_its_index(root: Path) -> None:
    found = told(root, "IndexError", "list index out of range", frame(root, LAYER, "return table", "at"))
    assert next((end.kind, end.name) for end in found.ends) == ("environment", "SGLANG_WHERE")


def test_a_line_without_a_log(root: Path) -> None:
    code = Code(DirectoryTree(root))
    module = code.module("sglang.srt.server_args")
    assert module is not None
    found = explain_line(module, line_of(root, ARGS, "raise ValueError(f"), code, SETTINGS, {})
    assert found is not None
    assert [(end.name, end.default) for end in found.ends] == [("--kv-cache-dtype", "'auto'")]
    assert found.guards[0].code == "self.kv_cache_dtype not in ('auto', 'fp8')"


def test_another_release_is_told(root: Path) -> None:
    strange = Frame(f"/x/site-packages/{LAYER}", 9, "__init__", "something that is nowhere in this source()")
    fault = Fault("exception", "ValueError", "x", Position("log", 1), frames=(strange,))
    assert explain(fault, DirectoryTree(root), SETTINGS, {}, "sglang") is None


def test_no_more_is_read_than_there_is_time_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triage.explain.code.MOST_SECONDS", 0.0)
    code = Code(DirectoryTree(root))
    assert code.module("sglang.srt.layer") is None
    assert code.notes == ["sglang.srt.layer was not read: enough was read before it"]


@pytest.mark.parametrize("text", ["def f(:\n", "x = " + "(" * 3000 + ")" * 3000, "\0", "a = 1\n" * 50_000])
def test_hostile_sources_are_left_out(root: Path, text: str) -> None:
    (root / RUNNER).write_text(text)
    found = heads_without_runner(root)
    assert found.site.kind == "raise"


def heads_without_runner(root: Path) -> Explained:
    lost = Frame(
        f"/x/site-packages/{RUNNER}", 7, "__init__", "self.layer = Attention(hf_config, self.tp, 'on')"
    )
    return told(root, "ValueError", "", lost, frame(root, LAYER, "raise ValueError(", "__init__"))
