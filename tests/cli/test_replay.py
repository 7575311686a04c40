"""`triage replay`, run as a CI job runs it: text, JSON, JUnit, exit codes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import triage

CORPUS = Path(__file__).parent.parent / "corpus"
STORY, PORT = "sglang-0.5.11-pp8-triton", "vllm-0.32-port-in-use"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two cases that give what they must, and one that does not."""
    for name in (STORY, PORT):
        shutil.copytree(CORPUS / name, tmp_path / "cases" / name)
    shutil.copytree(CORPUS / PORT, tmp_path / "cases" / "wrong")
    (tmp_path / "cases" / "wrong" / "expected.yaml").write_text("category: nccl\nranks: [PP3]\n")
    return tmp_path


def test_all_is_as_it_was(place: Path) -> None:
    done = triage("replay", f"cases/{STORY}", f"cases/{PORT}", cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ok   cases/{STORY}\nok   cases/{PORT}\n2 cases, 0 differ\n"


def test_what_differs_is_told_by_its_part(place: Path) -> None:
    done = triage("replay", "cases", cwd=place)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[:2] == [f"ok   cases/{STORY}", f"ok   cases/{PORT}"]
    assert lines[2] == "FAIL cases/wrong"
    assert lines[3] == "       category is port-in-use, expected nccl"
    assert lines[4].startswith("       ranks is ")
    assert lines[5].startswith("3 cases, 1 differs, ")
    assert {"category of 1", "ranks of 1"} == set(lines[5].split(", ")[2:])


def test_json(place: Path) -> None:
    done = triage("replay", "cases", "--format", "json", cwd=place)
    assert (done.returncode, done.stderr) == (1, "")
    document = json.loads(done.stdout)
    assert (document["schema"], document["failed"]) == ("triage.replay/1", 1)
    assert [case["passed"] for case in document["cases"]] == [True, True, False]
    assert document["cases"][2]["differences"][0]["part"] == "category"


@pytest.mark.parametrize("format", ["text", "json"])
def test_junit(place: Path, format: str) -> None:
    done = triage("replay", "cases", "--junit", "reports/junit.xml", "--format", format, cwd=place)
    assert done.returncode == 1
    suite = ElementTree.parse(place / "reports" / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    failed = [case for case in suite if case.find("failure") is not None]
    assert [case.get("name") for case in failed] == ["cases/wrong"]
    assert "category is port-in-use, expected nccl" in (failed[0][0].text or "")


def test_junit_to_standard_output(place: Path) -> None:
    done = triage("replay", f"cases/{PORT}", "--junit", "/dev/stdout", cwd=place)
    assert done.returncode == 0
    assert '<testsuite name="triage replay" tests="1"' in done.stdout


def test_rules_of_ones_own_decide_too(place: Path) -> None:
    (place / "rules").mkdir()
    (place / "rules" / "mine.yaml").write_text(
        "id: a-rule-of-this-site\ntitle: t\ncategory: nccl\nrole: cause\nconclusive: true\nexplanation: e\n"
        "signature: {exception: OSError, message: Errno 98. Address already in use}\n"
        "cases: {match: [{log: x}], near: [{log: y}]}\n"
    )
    done = triage("replay", f"cases/{PORT}", "--rules", "rules", cwd=place)
    assert (done.returncode, done.stderr) == (1, "")
    assert "category is nccl, expected port-in-use" in done.stdout


def test_names_of_cases_steer_no_terminal(place: Path) -> None:
    (place / "cases" / "wrong").rename(place / "cases" / "\x1b[2J\nok")
    done = triage("replay", "cases", cwd=place)
    assert done.returncode == 1
    assert "\x1b" not in done.stdout
    assert "FAIL cases/\\x1b[2J ok\n" in done.stdout


def test_the_whole_corpus_in_one_go() -> None:
    """As a CI job would: it ends, each case has its line, and each difference a part."""
    done = triage("replay", str(CORPUS), "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    document = json.loads(done.stdout)
    assert len(document["cases"]) == len(list(CORPUS.glob("*/expected.yaml")))
    assert not any(part["part"] == "error" for case in document["cases"] for part in case["differences"])
