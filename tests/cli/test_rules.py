"""`triage rules` and `triage explain`, as an author of rules uses them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import triage
from tests.rules.test_load import GOOD
from triage.rules.load import load_rules

CORPUS = Path(__file__).parents[1] / "corpus"
OWN = """\
id: zebra-without-stripes
title: the zebra has no stripes
category: model-config
role: cause
signature: {exception: ^ZebraError$, message: has no stripes}
explanation: Somebody washed it.
remedies: [{kind: action, id: paint, summary: paint it}]
cases:
  match:
    - log: |
        Traceback (most recent call last):
          File "/opt/sglang/srt/zebra.py", line 7, in stripes
        ZebraError: it has no stripes
  near:
    - log: |
        Traceback (most recent call last):
          File "/opt/sglang/srt/zebra.py", line 7, in stripes
        ZebraError: it has spots
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/zebra.yaml").write_text(OWN)
    return tmp_path


def listed(*words: str, cwd: Path | None = None) -> list[str]:
    done = triage("rules", "list", *words, cwd=cwd)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split()[0] for line in done.stdout.splitlines()]


def test_list_has_every_rule_and_ones_own(place: Path) -> None:
    assert listed("--rules", "rules", cwd=place) == sorted(
        [*(rule.id for rule in load_rules()), "zebra-without-stripes"]
    )


@pytest.mark.parametrize(
    ("words", "fits"),
    [
        (("--category", "gpu-oom"), lambda rule: rule.category == "gpu-oom"),
        (("--role", "benign"), lambda rule: rule.role == "benign"),
        (("--engine", "vllm"), lambda rule: rule.engine in ("", "vllm")),
        (("--engine", "sglang", "--role", "consequence"),
         lambda rule: rule.engine in ("", "sglang") and rule.role == "consequence"),
    ],
)  # fmt: skip
def test_list_of_some(words: tuple[str, ...], fits) -> None:
    expected = [rule.id for rule in load_rules() if fits(rule)]
    assert expected
    assert listed(*words) == expected


def test_list_as_json() -> None:
    done = triage("rules", "list", "--category", "pp-rank-assumption", "--format", "json")
    value = json.loads(done.stdout)
    assert value["schema"] == "triage.rules/1"
    assert {rule["category"] for rule in value["rules"]} == {"pp-rank-assumption"}
    story = next(rule for rule in value["rules"] if rule["id"] == "sglang-pp-value-head-dim")
    assert story["signatures"][0]["frames"][0]["as"] == "site"


@pytest.mark.parametrize(
    "words", [("--category", "nope"), ("--engine", "nope"), ("--role", "nope")], ids=" ".join
)
def test_list_of_what_there_is_not(words: tuple[str, ...]) -> None:
    done = triage("rules", "list", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "nope: there is none. Next: one of: " in done.stderr


def test_explain() -> None:
    done = triage("explain", "sglang-pp-value-head-dim")
    assert done.returncode == 0
    headings = [line for line in done.stdout.splitlines() if line.isupper() and not line.startswith(" ")]
    assert headings == [
        "WHAT IT MEANS", "WHY IT HAPPENS", "HOW IT IS CONFIRMED", "WHAT TO DO", "REFERENCES"
    ]  # fmt: skip
    assert "triage patch HOST --id sglang-triton-value-head-dim --apply" in done.stdout
    assert "https://github.com/sgl-project/sglang/pull/30340" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 104


def test_explain_what_there_is_not() -> None:
    done = triage("explain", "http-port-in-us")
    assert done.returncode == 2
    assert "there is http-port-in-use, " in done.stderr
    assert "Next: triage explain http-port-in-use" in done.stderr
    assert "Next: triage rules list" in triage("explain", "zzzz").stderr


def test_a_diagnosis_says_how_to_learn_more() -> None:
    log = CORPUS / "vllm-0.32-port-in-use/log.log"
    said = triage("diagnose", "--log", str(log)).stdout
    assert "  more: triage explain http-port-in-use\n" in said
    assert triage("explain", "http-port-in-use").returncode == 0


def test_show_has_the_cases_too(place: Path) -> None:
    done = triage("rules", "show", "zebra-without-stripes", "--rules", "rules", cwd=place)
    assert "Somebody washed it." in done.stdout
    assert "ZebraError: it has spots" in done.stdout


def test_a_rule_does_not_steer_the_terminal(place: Path) -> None:
    (place / "rules/zebra.yaml").write_text(OWN.replace("Somebody washed it.", '"\\e[2J [bold]x[/bold]"'))
    for words in (("explain",), ("rules", "show")):
        done = triage(*words, "zebra-without-stripes", "--rules", "rules", cwd=place)
        assert "\x1b" not in done.stdout
        assert "[bold]x[/bold]" in done.stdout


def test_test_runs_the_cases_of_ones_own_rules(place: Path) -> None:
    words = ("rules", "test", "zebra-without-stripes", "--rules", "rules")
    done = triage(*words, cwd=place)
    assert (done.returncode, done.stdout) == (0, "1 rule, 2 cases, 0 fail\n")
    (place / "rules/zebra.yaml").write_text(OWN.replace("message: has no stripes", "message: has"))
    done = triage(*words, cwd=place)
    assert done.returncode == 1
    assert "FAIL zebra-without-stripes near 1: it matches, and must not" in done.stdout


def test_test_tells_of_a_rule_that_fires_on_anothers_case(place: Path) -> None:
    (place / "rules/wide.yaml").write_text(
        OWN.replace("zebra-without-stripes", "wide").replace("^ZebraError$", "Error$")
    )
    done = triage("rules", "test", "zebra-without-stripes", "--rules", "rules", cwd=place)
    assert done.returncode == 1
    assert "FAIL zebra-without-stripes match 1: wide matches as well" in done.stdout


def test_lint(place: Path) -> None:
    done = triage("rules", "lint", "--rules", "rules", cwd=place)
    assert (done.returncode, done.stdout) == (0, "1 file, 0 problems\n")
    (place / "rules/bad.yaml").write_text(GOOD.replace("role: cause", "role: culprit"))
    done = triage("rules", "lint", "--rules", "rules", cwd=place)
    assert done.returncode == 1
    assert "rules/bad.yaml: role: expected 'cause', 'consequence' or 'benign', not" in done.stdout
    assert done.stdout.endswith("2 files, 1 problem\n")


def test_matrix(place: Path) -> None:

    shutil.copytree(CORPUS / "vllm-0.32-port-in-use", place / "cases/port")
    done = triage("rules", "matrix", "cases", "--rules", "rules", cwd=place)
    assert done.returncode == 0
    rows = {line.split()[0]: line.split(maxsplit=3)[1:] for line in done.stdout.splitlines()}
    assert rows["rule"] == ["own", "near", "elsewhere"]
    assert rows["zebra-without-stripes"] == ["1/1", "0/1"]
    assert "cases/port" in rows["http-port-in-use"][2]


def test_new_is_a_rule_that_loads_and_matches(place: Path) -> None:
    words = ("rules", "new", "my-draft", "-o", "mine/my-draft.yaml")
    case = str(CORPUS / "sglang-0.5.11-pp8-triton")
    done = triage(*words, "--from-case", case, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "note: sglang-pp-value-head-dim matches its case as well" in done.stdout
    assert triage("rules", "show", "my-draft", "--rules", "mine", cwd=place).returncode == 0
    told = triage("rules", "lint", "--rules", "mine", cwd=place).stdout
    assert "title: it is still to be written" in told
    again = triage(*words, "--from-case", case, cwd=place)
    assert (again.returncode, "it is there already" in again.stderr) == (4, True)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ((), 2, "give either --from-case or --from-log"),
        (("--from-case", "x", "--from-log", "y"), 2, "give either"),
        (("--from-log", "missing"), 2, "there is no such file"),
        (("--from-case", "missing"), 2, "there is no such directory"),
        (("--from-log", "healthy"), 2, "no incident"),
        (("--from-case", "empty"), 3, "neither a bundle nor a log"),
    ],
)
def test_new_without_an_incident(place: Path, words: tuple[str, ...], code: int, says: str) -> None:
    (place / "empty").mkdir()
    (place / "healthy").write_text("The server is fired up and ready to roll!\n")
    done = triage("rules", "new", "my-draft", *words, cwd=place)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert not (place / "my-draft.yaml").exists()


@pytest.mark.parametrize("id", ["../x", "Upper", "two--hyphens", "a\n", "a" * 65])
def test_new_with_what_is_no_id(place: Path, id: str) -> None:
    (place / "log").write_text(OWN)
    done = triage("rules", "new", id, "--from-log", "log", "-o", "draft.yaml", cwd=place)
    assert (done.returncode, done.stdout) == (2, "")
    assert "an id is at most 64 small letters and digits" in done.stderr
    assert not (place / "draft.yaml").exists()


def test_docs_leaves_other_files_alone(place: Path) -> None:
    (place / "docs").mkdir()
    (place / "docs/README.md").write_text("mine")
    done = triage("rules", "docs", "--write", "docs", "--rules", "rules", cwd=place)
    assert done.returncode == 0, done.stderr
    assert (place / "docs/README.md").read_text() == "mine"
    page = place / "docs/model-config.md"
    assert "## zebra-without-stripes" in page.read_text()
    page.rename(place / "docs/gone.md")
    triage("rules", "docs", "--write", "docs", cwd=place)
    assert not (place / "docs/gone.md").exists()
    assert "zebra" not in page.read_text()


def test_help_does_not_import_what_it_does_not_need() -> None:
    """`triage --help` and `rules list` are answered before a person notices."""
    code = "import sys; from triage.cli import app; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    heavy = {"pydantic", "libcst", "paramiko", "yaml", "jinja2", "triage.rules.load"}
    assert heavy.isdisjoint(done.stdout.split())
