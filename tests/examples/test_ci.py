"""The CI job of examples/ci: its commands, on the cases that are shipped."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
CASE = ROOT / "examples/cases/sglang-0.5.11-pp8-triton"


def commands(workflow: str) -> list[str]:
    """Of a workflow of GitHub, or a pipeline of GitLab."""
    content = yaml.safe_load((ROOT / workflow).read_text("utf-8"))
    if "jobs" in content:
        return [step["run"] for job in content["jobs"].values() for step in job["steps"] if "run" in step]
    return [line for job in content.values() for line in job["script"]]


def replay(command: str, cases: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The job's command in a directory where `cases` is what it names."""
    program, *arguments = shlex.split(command)
    assert program == "triage"
    (tmp_path / "cases").symlink_to(cases)
    argv = [sys.executable, "-m", "triage", *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)


@pytest.fixture(params=["github-actions.yml", "gitlab-ci.yml"])
def the_job(request: pytest.FixtureRequest) -> str:
    return next(line for line in commands(f"examples/ci/{request.param}") if "replay" in line)


def test_the_job_passes_on_what_is_shipped(the_job: str, tmp_path: Path) -> None:
    done = replay(the_job, CASE.parent, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    suite = ElementTree.parse(tmp_path / "replay.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


def test_the_job_fails_on_a_flipped_verdict(the_job: str, tmp_path: Path) -> None:
    case = tmp_path / "captured" / CASE.name
    case.parent.mkdir()
    subprocess.run(["cp", "-r", str(CASE), str(case)], check=True)
    expected = case / "expected.yaml"
    expected.write_text(expected.read_text("utf-8").replace("pp-rank-assumption", "host-oom"), "utf-8")
    done = replay(the_job, case.parent, tmp_path)
    assert done.returncode == 1
    assert "category is pp-rank-assumption, expected host-oom" in done.stdout
    assert ElementTree.parse(tmp_path / "replay.xml").getroot().get("failures") == "1"


def test_the_job_fails_on_an_empty_directory(the_job: str, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    done = replay(the_job, tmp_path / "none", tmp_path)
    assert done.returncode == 3
    assert "no case is there" in done.stderr


def test_our_own_workflow_runs_what_the_readme_says() -> None:
    own = commands(".github/workflows/ci.yml")
    assert "make test" in own
    assert any(line.startswith("triage replay examples/cases") and "--junit" in line for line in own)
