"""What the README shows without a host; `tests/e2e/test_readme.py` runs the rest on one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.readme import ROOT, Example, examples


@pytest.mark.parametrize("example", [item for item in examples() if not item.needs_host], ids=str)
def test_offline(example: Example) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "triage", *example.arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert example.differs_from(done.stdout) == ""
    assert done.stderr == ""


def test_every_command_is_an_example_or_exists() -> None:
    """Commands in running text are real ones."""
    text = (ROOT / "README.md").read_text("utf-8")
    help_text = subprocess.run(
        [sys.executable, "-m", "triage", "--help"], capture_output=True, text=True, timeout=60
    ).stdout
    for command in set(re.findall(r"triage ([a-z]+)", text)):
        assert f"  {command} " in help_text, command


def test_files_it_names_exist() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for name in re.findall(r"`((?:docs|examples|tests)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name
