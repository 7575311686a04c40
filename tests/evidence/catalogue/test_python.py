"""Real interpreters, asked where they would import from."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from triage.evidence.catalogue import PythonTree
from triage.evidence.live import LiveEvidence
from triage.hosts import open_connection


@pytest.fixture
def evidence() -> LiveEvidence:
    return LiveEvidence(open_connection("local"))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment that holds an sglang which must not be imported."""
    place = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True, timeout=120)
    site = next(place.glob("lib/python3*/site-packages"))
    package(site, "0.5.11")
    return place


def package(directory: Path, version: str) -> Path:
    (directory / "sglang").mkdir(parents=True)
    (directory / "sglang" / "__init__.py").write_text("raise SystemExit('imported!')\n")
    info = directory / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    return directory / "sglang"


def test_packages_and_versions_of_a_virtual_environment(evidence: LiveEvidence, environment: Path) -> None:
    found = evidence.ask(PythonTree(f"{environment}/bin/python")).require()
    site = next(environment.glob("lib/python3*/site-packages"))
    assert found.packages["sglang"] == str(site / "sglang")
    assert found.distributions["sglang"] == "0.5.11"
    assert found.prefix == str(environment)
    assert "vllm" not in found.packages
    assert not list(site.rglob("*.pyc"))


def test_pythonpath_comes_before_the_environment(
    evidence: LiveEvidence, environment: Path, tmp_path: Path
) -> None:
    other = package(tmp_path / "checkout", "0.5.12")
    query = PythonTree(f"{environment}/bin/python", (("PYTHONPATH", str(tmp_path / "checkout")),))
    found = evidence.ask(query).require()
    assert found.packages["sglang"] == str(other)
    assert found.distributions["sglang"] == "0.5.12"


def test_the_directory_of_python_dash_m_comes_first(
    evidence: LiveEvidence, environment: Path, tmp_path: Path
) -> None:
    here = package(tmp_path, "0.5.13")
    query = PythonTree(f"{environment}/bin/python", (), str(tmp_path), str(tmp_path))
    assert evidence.ask(query).require().packages["sglang"] == str(here)


def test_relative_entries_count_from_the_services_directory(
    evidence: LiveEvidence, environment: Path, tmp_path: Path
) -> None:
    there = package(tmp_path / "code", "0.5.14")
    query = PythonTree(f"{environment}/bin/python", (("PYTHONPATH", "code"),), str(tmp_path))
    assert evidence.ask(query).require().packages["sglang"] == str(there)


def test_modules_in_the_way_of_the_question_itself_are_not_run(
    evidence: LiveEvidence, environment: Path, tmp_path: Path
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('imported!')\n")
    query = PythonTree(f"{environment}/bin/python", (), str(tmp_path), str(tmp_path))
    assert evidence.ask(query).require().version


def test_versions_are_those_that_an_import_would_find(
    evidence: LiveEvidence, environment: Path, tmp_path: Path
) -> None:
    for entry, file, version in (
        ("first/vllm.egg-info", "PKG-INFO", "0.11.1.dev0"),
        ("second/vllm-0.10.0.dist-info", "METADATA", "0.10.0"),
        ("second/flashinfer_python-0.5.0.dist-info", "METADATA", "0.5.0+cu130"),
        ("second/torchaudio-2.11.0.dist-info", "METADATA", "2.11.0"),
        ("second/Triton-3.5.0.dist-info", "METADATA", "3.5.0"),
    ):
        (tmp_path / entry).mkdir(parents=True)
        (tmp_path / entry / file).write_text(
            f"Metadata-Version: 2.1\nName: x\nVersion: {version}\n\nVersion: 9"
        )
    (tmp_path / "second" / "torch-2.11.0.dist-info").mkdir()  # half removed
    search = f"{tmp_path}/none:{tmp_path}/first:{tmp_path}/second"
    query = PythonTree(f"{environment}/bin/python", (("PYTHONPATH", search),))
    assert evidence.ask(query).require().distributions == {
        "sglang": "0.5.11",
        "vllm": "0.11.1.dev0",
        "flashinfer-python": "0.5.0+cu130",
        "triton": "3.5.0",
    }


def test_an_interpreter_that_is_not_there_or_none(evidence: LiveEvidence, tmp_path: Path) -> None:
    assert evidence.ask(PythonTree(str(tmp_path / "none"))).value is None
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho '{\"version\": 5}'\n")
    fake.chmod(0o755)
    assert "no usable answer" in evidence.ask(PythonTree(str(fake))).missing


def test_a_directory_that_the_service_may_not_read_is_passed_over(evidence: LiveEvidence) -> None:
    """As that of a login is to a service that was started from it with `su`."""
    user = "nobody" if os.geteuid() == 0 else ""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        closed = Path(name, "closed")
        package(closed, "0.5.13")
        closed.chmod(0)
        query = PythonTree("/usr/bin/python3", first=str(closed), user=user)
        assert "sglang" not in evidence.ask(query).require().packages
        closed.chmod(0o700)


def test_start_up_files_may_print(evidence: LiveEvidence, environment: Path, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('hello')\n")
    query = PythonTree(f"{environment}/bin/python", (("PYTHONPATH", str(tmp_path)),))
    assert evidence.ask(query).require().version
