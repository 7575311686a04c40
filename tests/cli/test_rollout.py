"""A playbook on several hosts, each this machine under another name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.test_fleet import Fleet
from tests.cli.test_fleet import fleet as fleet  # a fixture
from tests.hosts.conftest import server as server  # a fixture

HARMLESS = """
name: harmless
description: Reaches each host, and works something out.
vars: {word: null}
steps:
  - {name: Look, do: set, with: {seen: "{{ host }} {{ word }}"}, register: seen}
"""


@pytest.fixture
def harmless(tmp_path: Path) -> str:
    (tmp_path / "harmless.yaml").write_text(HARMLESS)
    return str(tmp_path / "harmless.yaml")


def test_it_runs_in_waves_with_the_options_that_were_given(fleet: Fleet, harmless: str):
    for name in ("a1", "a2", "a3"):
        fleet.add(name)
    done = fleet.run(
        "run", harmless, "a[1:3]", "--wave", "100", "--var", "word=x", "--yes", "--format", "json"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [[run["host"] for run in wave] for wave in found["waves"]] == [["a1"], ["a2", "a3"]]
    assert found["waves"][1][1]["run"]["steps"][0]["data"] == {"seen": "a3 x"}


def test_it_stops_after_a_host_that_fails_and_says_who_was_left_alone(fleet: Fleet, harmless: str):
    fleet.add_ill("b1")
    for name in ("b2", "b3"):
        fleet.add(name)
    done = fleet.run("run", "diagnose-only", "b[1:3]", "--yes")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0] == "wave 1 of 3: b1"
    assert "b1: exit code 1: Report the incident:" in done.stdout
    assert done.stdout.splitlines()[-1] == "stopped; not touched: b2, b3"


def test_nothing_is_begun_without_consent(fleet: Fleet, harmless: str):
    for name in ("c1", "c2"):
        fleet.add(name)
    done = fleet.run("run", harmless, "c1,c2", "--var", "word=x")
    assert (done.returncode, done.stdout) == (4, "")
    assert "nobody agreed to it" in done.stderr
