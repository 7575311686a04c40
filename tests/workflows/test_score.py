"""The score of a tool on labelled cases, of ours and of any other, beside what a plain search finds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from typer.testing import CliRunner

from triage.cli.app import app
from triage.workflows.replay import Difference, Expected, Replayed
from triage.workflows.score import Share, score

CORPUS = Path(__file__).parents[1] / "corpus"


def replayed(
    name: str, parts: tuple[str, ...] = (), found: Expected | None = None, **label: object
) -> Replayed:
    differences = tuple(Difference(part, "") for part in parts)
    return Replayed(name, 0.0, differences, found, Expected.model_validate(label))


def test_the_score_counts_what_labels_say():
    sure, unsure = (
        Expected(category="ray", certainty="likely"),
        Expected(category="ray", certainty="possible"),
    )
    none, unknown = Expected(category="none"), Expected(category="unknown", certainty="unknown")
    found = score(
        [
            replayed(
                "right", (), sure, category="ray", initiator_line=3, ranks=("PP3",), roles={4: "victim"}
            ),
            replayed("another", ("category", "ranks"), sure, category="nccl", ranks=("PP3",)),
            replayed("perhaps", ("category",), unsure, category="nccl"),
            replayed("open", ("category", "initiator"), unknown, category="nccl", undecided=True),
            replayed("missed", ("incident",), none, category="nccl", type="OSError", roles={4: "victim"}),
            replayed("healthy", (), none, category="none"),
            replayed("alarm", ("incident",), sure, category="none"),
            Replayed("unreadable", 0.0, (Difference("error", ""),)),
        ]
    )
    assert found.cases == 8
    assert found.parts == {
        "incident": Share(5, 8),
        "initiator": Share(1, 3),
        "ranks": Share(1, 2),
        "roles": Share(1, 2),
        "category": Share(1, 5),
    }
    assert (found.unanswered, found.guessed, found.wrong) == (2, 1, ("another",))


def test_the_score_on_the_command_line(tmp_path):
    shutil.copytree(CORPUS / "vllm-0.32-port-in-use", tmp_path / "right")
    shutil.copytree(CORPUS / "vllm-0.32-port-in-use", tmp_path / "wrong")
    (tmp_path / "wrong" / "expected.yaml").write_text("category: ray\ninitiator_line: 38\n")
    plain = CliRunner().invoke(app, ["replay", str(tmp_path)])
    told = CliRunner().invoke(app, ["replay", str(tmp_path), "--score"])
    assert (plain.exit_code, told.exit_code) == (1, 1)
    assert told.stdout.startswith(plain.stdout)
    assert "  category     1 of    2   50.0%\n" in told.stdout
    assert told.stdout.splitlines()[-1] == f"  confidently wrong: {tmp_path}/wrong"
    parsed = json.loads(
        CliRunner().invoke(app, ["replay", str(tmp_path), "--score", "--format", "json"]).stdout
    )
    assert parsed["score"]["parts"]["initiator"] == {"right": 2, "asked": 2}
    assert parsed["score"]["wrong"] == [f"{tmp_path}/wrong"]


def case(place: Path, log: str, label: str) -> None:
    place.mkdir(parents=True)
    (place / "log").write_text(log)
    (place / "expected.yaml").write_text(label)


LOG = """INFO start
x: ValueError: the page size must be a power of two, got 48
Traceback (most recent call last):
  File "/v/lib/python3.12/site-packages/a/b.py", line 3, in run
    check(size)
RuntimeError: the worker could not be started
"""


def test_a_plain_search_is_scored_in_the_same_run(tmp_path):
    case(
        tmp_path / "one", LOG, "category: launch-arguments\ninitiator: the page size must be a power of two\n"
    )
    case(tmp_path / "two", LOG, "category: engine-dead\ninitiator_line: 6\n")
    out = CliRunner().invoke(app, ["replay", str(tmp_path), "--score", "--format", "json"]).stdout
    assert json.loads(out)["score"]["baselines"] == {
        "first exception": {"right": 1, "asked": 2},
        "last exception": {"right": 1, "asked": 2},
        "first word of failure": {"right": 1, "asked": 2},
        "last word of failure": {"right": 1, "asked": 2},
    }


def test_a_label_is_met_by_the_line_that_holds_it(tmp_path):
    """A label in the words of the line's prefix still names the fault of that line."""
    log = "May 12 14:00:01 gpu01 python[7]: KeyError: 'model.layers.3.mlp.gate.weight'\n"
    case(tmp_path / "one", log, "category: weights\ninitiator: 'gpu01 python[7]: KeyError'\n")
    out = CliRunner().invoke(app, ["replay", str(tmp_path), "--score", "--format", "json"]).stdout
    assert json.loads(out)["score"]["parts"]["initiator"] == {"right": 1, "asked": 1}


def test_the_answers_of_another_tool(tmp_path):
    case(tmp_path / "one", LOG, "category: launch-arguments\ninitiator: the page size must be\n")
    case(tmp_path / "two", LOG, "category: launch-arguments\ninitiator: the page size must be\n")
    case(tmp_path / "three", LOG, "category: launch-arguments\ninitiator_line: 2\n")
    case(tmp_path / "four", "INFO ready\n", "category: none\n")
    case(tmp_path / "five", LOG, "category: launch-arguments\n")
    right = {"category": "launch-arguments", "certainty": "likely", "initiator": LOG.splitlines()[1]}
    wrong = {"category": "nccl", "certainty": "confirmed", "initiator": "RuntimeError: the worker could"}
    said = {"one": right, "two": wrong, "three": right, "four": {"category": "none"}}
    answers = tmp_path / "answers.json"
    cases = [{"name": name, "found": found} for name, found in said.items()]
    answers.write_text(json.dumps({"schema": "triage.replay/1", "cases": cases}))
    done = CliRunner().invoke(app, ["replay", str(tmp_path), "--answers", str(answers), "--format", "json"])
    found = json.loads(done.stdout)["score"]
    assert found["parts"]["category"] == {"right": 2, "asked": 4}
    assert found["parts"]["initiator"] == {"right": 2, "asked": 3}
    assert found["parts"]["incident"] == {"right": 4, "asked": 5}
    assert (found["silent"], found["wrong"]) == ([f"{tmp_path}/five"], [f"{tmp_path}/two"])
