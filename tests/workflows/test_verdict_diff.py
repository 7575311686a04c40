"""Which verdicts flip: against other rules, and against an earlier result."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.command import triage
from triage.rules.load import KNOWLEDGE

CORPUS = Path(__file__).parents[1] / "corpus"
CASE = "vllm-0.32-port-in-use"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    shutil.copytree(CORPUS / CASE, tmp_path / "cases" / CASE)
    shutil.copytree(CORPUS / "sglang-0.5.11-pp8-triton", tmp_path / "cases" / "story")
    return tmp_path


def test_rules_without_the_one_that_decides(place: Path) -> None:
    shutil.copytree(KNOWLEDGE, place / "older")
    (place / "older/engine/http-port-in-use.yaml").unlink()
    done = triage("replay", "cases", "--against", "older", "--format", "json", cwd=place)
    assert done.returncode == 1, done.stderr
    (flip,) = json.loads(done.stdout)["flips"]
    assert flip["name"] == f"cases/{CASE}"
    assert flip["changed"]["rule"] == {"before": None, "now": "http-port-in-use"}
    assert flip["changed"]["certainty"]["before"] == "possible"  # by its kind
    assert "category" not in flip["changed"]
    assert "initiator" not in flip["changed"]


def test_the_same_rules_flip_nothing(place: Path) -> None:
    done = triage("replay", "cases", "--against", str(KNOWLEDGE), cwd=place)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 of 2 verdicts flip")


def test_an_earlier_result_of_replay(place: Path) -> None:
    earlier = triage("replay", "cases", "--format", "json", cwd=place).stdout
    (place / "earlier.json").write_text(earlier.replace('"port-in-use"', '"ulimit"'))
    done = triage("replay", "cases", "--against", "earlier.json", "--junit", "flips.xml", cwd=place)
    assert done.returncode == 1
    failures = {each.get("message") for each in ElementTree.parse(place / "flips.xml").iter("failure")}
    assert failures == {"category was ulimit, is port-in-use"}
    assert "       category ulimit -> port-in-use\n1 of 2 verdicts flip\n" in done.stdout


def test_an_earlier_diagnosis(place: Path) -> None:
    log = f"cases/{CASE}/log.log"
    (place / "d.json").write_text(triage("diagnose", "--log", log, "--format", "json", cwd=place).stdout)
    done = triage("replay", "cases", "--against", "d.json", cwd=place)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 of 1 verdicts flip")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("id: x", "neither a directory nor JSON"),
        ("[]", "not the result of a replay"),
        ('{"schema": "triage.case/1"}', "schema: it is 'triage.case/1'"),
        ('{"schema": "triage.replay/1", "cases": [{"name": "a"}]}', "found"),
        ('{"schema": "triage.replay/1", "cases": 3}', "a key is missing or not as it should be"),
        ('{"schema": "triage.replay/1", "cases": []}', "it names none of these cases"),
        ("[" * 100_000, "neither a directory nor JSON"),
    ],
)
def test_what_is_no_result(place: Path, text: str, says: str) -> None:
    (place / "ref").write_text(text)
    done = triage("replay", "cases", "--against", "ref", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Next: triage replay" in done.stderr


def test_no_such_reference(place: Path) -> None:
    assert triage("replay", "cases", "--against", "missing", cwd=place).returncode == 3
