"""`triage scan` on a directory and on this machine as a host."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import triage
from tests.patching.trees import install

ID = "sglang-triton-value-head-dim"
MODEL = """\
class Model:
    def __init__(self):
        self.embed_tokens = PPMissingLayer()
        self.width = self.layers[0].mlp.width
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = install(tmp_path / "site-packages")
    model = place / "sglang" / "srt" / "models" / "mine.py"
    model.parent.mkdir()
    model.write_text(MODEL)
    return place


def test_text_of_a_directory(root: Path) -> None:
    done = triage("scan", str(root))
    assert (done.returncode, done.stderr) == (1, "")
    assert f"{ID}: applicable" in done.stdout
    assert "mine.py:4 in Model.__init__" in done.stdout


@pytest.mark.parametrize("place", ["local", "sglang"])
def test_json_is_the_same_from_a_host_and_from_its_package(root: Path, place: str) -> None:
    package = str(root / "sglang")
    words = [place, "--package-root", package] if place == "local" else [package]
    done = triage("scan", *words, "--format", "json")
    assert done.returncode == 1, done.stderr
    value = json.loads(done.stdout)
    assert (value["schema"], value["unread"]) == ("triage.scan/1", [])
    assert ID in {patch["id"] for patch in value["patches"] if patch["state"] == "applicable"}
    (finding,) = value["findings"]
    assert (finding["kind"], finding["line"], finding["where"]) == ("layer-zero", 4, "Model.__init__")


def test_a_service_whose_log_cannot_be_read_is_scanned_and_patched_all_the_same(root: Path) -> None:
    (root / "sglang" / "launch_server.py").write_text("import time; time.sleep(120)\n")
    words = [sys.executable, "-m", "sglang.launch_server", "--model-path", "/srv/models/m"]
    service = subprocess.Popen(words, cwd=root, stderr=subprocess.PIPE)
    try:
        unit = f"pid {service.pid}"
        done = triage("diagnose", "local", "--unit", unit)
        assert (done.returncode, "writes into a pipe" in done.stderr) == (3, True)
        done = triage("scan", "local", "--unit", unit)
        assert (done.returncode, done.stderr) == (1, "")
        assert f"{ID}: applicable" in done.stdout
        done = triage("patch", "local", "--unit", unit, "--id", ID)
        assert (done.returncode, f"{ID}: applicable" in done.stdout) == (0, True), done.stderr
    finally:
        service.kill()
        service.communicate()


def test_sarif_has_the_fix(root: Path) -> None:
    (run,) = json.loads(triage("scan", str(root), "--format", "sarif").stdout)["runs"]
    (known,) = (result for result in run["results"] if result["ruleId"] == ID)
    place = known["locations"][0]["physicalLocation"]["artifactLocation"]
    assert (place["uri"], place["uriBaseId"]) == ("sglang/srt/layers/attention/triton_backend.py", "ROOT")
    (change,) = known["fixes"][0]["artifactChanges"]
    assert "token_to_kv_pool.start_layer" in change["replacements"][0]["insertedContent"]["text"]
    assert {result["ruleId"] for result in run["results"]} <= {
        rule["id"] for rule in run["tool"]["driver"]["rules"]
    }


def test_a_place_in_sarif_is_a_uri(root: Path) -> None:
    model = root / "sglang" / "srt" / "models"
    (model / "mine.py").rename(model / "mine 100%.py")
    (run,) = json.loads(triage("scan", str(root), "--format", "sarif").stdout)["runs"]
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in run["results"]]
    assert {"uri": "sglang/srt/models/mine%20100%25.py", "uriBaseId": "ROOT"} in places


def test_nothing_to_find_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").touch()
    done = triage("scan", str(tmp_path))
    assert (done.returncode, "0 known defects, 0 places" in done.stdout) == (0, True)


def test_a_directory_without_an_engine(tmp_path: Path) -> None:
    done = triage("scan", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no package sglang or vllm in it. Next: ls" in done.stderr


def test_a_bare_name_is_a_host_whatever_is_here(root: Path) -> None:
    root.rename(root.parent / "gpu01")
    for words in (("scan", "gpu01"), ("patch", "gpu01", "--id", ID)):
        done = triage(*words, "-F", "/dev/null", cwd=root.parent)
        assert done.returncode in (2, 3), done.stdout
        assert "for the directory gpu01 that is here write ./gpu01" in done.stderr
        assert triage(words[0], "./gpu01", *words[2:], cwd=root.parent).returncode in (0, 1)
        assert triage(words[0], "gpu01/", *words[2:], cwd=root.parent).returncode in (0, 1)


def test_no_interpreter_of_a_directory_runs_before_its_source_is_changed(tmp_path: Path) -> None:
    site = install(tmp_path / "gpu01" / "lib" / "python3.11" / "site-packages")
    bin, ran = tmp_path / "gpu01" / "bin", tmp_path / "ran"
    bin.mkdir()
    (bin / "python").write_text(f'#!/bin/sh\necho "$@" >> {ran}\nexec {sys.executable} "$@"\n')
    (bin / "python").chmod(0o755)
    place, ledger = str(tmp_path / "gpu01"), str(tmp_path / "ledger")
    assert triage("scan", place).returncode == 1
    patch = ("patch", place, "--id", ID, "--given", "pool_class=MLATokenToKVPool", "--ledger", ledger)
    for more in ((), ("--export", "diff"), ("--format", "json")):
        assert triage(*patch, *more).returncode == 0
    assert not ran.exists()
    bin.chmod(0o777)  # others can change it: it is not run, and that is said
    done = triage(*patch, "--apply", "--yes")
    assert (done.returncode, "is not run, as other accounts can change it" in done.stderr) == (0, True)
    assert not ran.exists()
    bin.chmod(0o755)
    assert triage("patch", "rollback", "local", "--id", ID, "--yes", "--ledger", ledger).returncode == 0
    done = triage(*patch, "--apply", "--yes")
    assert (done.returncode, f"{bin}/python is run to compile the change" in done.stderr) == (0, True)
    assert "compile(" in ran.read_text()
    assert "start_layer" in (site / "sglang/srt/layers/attention/triton_backend.py").read_text()
