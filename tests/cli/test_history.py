from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.command import triage
from tests.verify.test_history import FULL
from triage.verify.history import History


@pytest.fixture
def state(tmp_path: Path) -> Path:
    history = History(tmp_path / "triage" / "history")
    for day, host in enumerate(("gpu01", "gpu01", "gpu02"), 1):
        history.append(host, replace(FULL, at=f"2026-05-0{day}T00:00:00+00:00"))
    return tmp_path


def history(state: Path, *words: str) -> CompletedProcess[str]:
    return triage("history", *words, env={**os.environ, "XDG_STATE_HOME": str(state)})


def test_results_are_listed_by_deployment(state: Path):
    done = history(state)
    assert done.returncode == 0
    titles = [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert titles == [f"{FULL.deployment} on gpu01", f"{FULL.deployment} on gpu02"]
    assert "2026-05-02T00:00:00+00:00" in done.stdout


def test_a_result_is_pinned_and_freed(state: Path):
    assert history(state, "gpu01", "--pin", "2026-05-01T00:00:00+00:00").stdout.count("baseline") == 1
    found = json.loads(history(state, "gpu01", "--format", "json").stdout)
    assert (found["schema"], found["deployments"][0]["baseline"]) == (
        "triage.history/1",
        "2026-05-01T00:00:00+00:00",
    )
    assert "baseline" not in history(state, "gpu01", "--unpin").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("gpu09", "--pin", "last"), "pinning a result of gpu09: none is stored. Next: triage history\n"),
        (("--pin", "last"), "it takes one deployment"),
        (("gpu01", "--pin", "yesterday"), "there is none of that time"),
    ],
)
def test_what_cannot_be_is_said(state: Path, words: tuple[str, ...], said: str):
    done = history(state, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_where_nothing_was_measured_there_is_no_last_one(state: Path):
    dead = replace(FULL, deployment="dead.service", start=replace(FULL.start, ready=False))
    History(state / "triage" / "history").append("gpu03", dead)
    done = history(state, "gpu03", "--pin", "last")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "triage: pinning the latest result of dead.service on gpu03: none was measured without failures. "
        "Next: triage verify gpu03 --unit dead.service\n"
    )


def test_a_result_of_another_tool_is_stored(state: Path):
    file = Path(__file__).parents[1] / "verify" / "foreign" / "guidellm-0.8.1.json"
    done = history(state, "gpu03", "--unit", "x.service", "--import", str(file))
    assert done.returncode == 0
    assert "guidellm 0.8.1" in done.stdout
    assert "whose result it is" in history(state, "--import", str(file)).stderr


@pytest.mark.parametrize("words", [("gpu09",), ("gpu01", "--unit", "y.service")])
def test_nothing_stored_is_an_answer(state: Path, words: tuple[str, ...]):
    done = history(state, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("no such result is stored in ")
    assert json.loads(history(state, *words, "--format", "json").stdout)["deployments"] == []


def test_a_baseline_that_is_gone_is_told(state: Path):
    history(state, "gpu01", "--pin", "last")
    stored = History(state / "triage" / "history").path("gpu01", FULL.deployment)
    stored.write_bytes(stored.read_bytes().splitlines(keepends=True)[0])
    assert "baseline of 2026-05-02T00:00:00+00:00 is no longer stored" in history(state, "gpu01").stdout
