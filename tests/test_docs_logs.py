"""docs/logs.md: its commands print what it shows, and it says what the code says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.readme import ROOT, Example, examples
from triage.logs.faults import fingerprint
from triage.logs.formats import NAMES
from triage.workflows.replay import Expected

PAGE = "docs/logs.md"
TEXT = (ROOT / PAGE).read_text("utf-8")


@pytest.mark.parametrize("example", list(examples(PAGE)), ids=str)
def test_what_it_shows_is_printed(example: Example, tmp_path: Path):
    os.symlink(ROOT / "tests", tmp_path / "tests")
    done = subprocess.run(
        [sys.executable, "-m", "triage", *example.arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert example.differs_from(done.stdout) == ""
    assert done.stderr == ""


def test_every_format_is_told():
    table = TEXT.partition("## Formats")[2].partition("## Roles")[0]
    assert {name for name in NAMES if f"`{name}`" not in table} == set()


def test_the_fingerprint_is_defined_as_in_the_code():
    assert fingerprint.__doc__ is not None
    definition = [line for line in fingerprint.__doc__.splitlines() if line.startswith("    ")]
    assert "\n".join(definition) in TEXT


def test_every_role_is_told():
    table = TEXT.partition("## Roles")[2].partition("How the")[0]
    assert [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")] == [
        "initiator",
        "victim",
        "teardown",
        "benign",
    ]


def test_every_key_of_a_label_is_told():
    """The page on the corpus names what a case can say."""
    page = (ROOT / "tests" / "corpus" / "README.md").read_text("utf-8")
    assert {key for key in Expected.model_fields if f"`{key}`" not in page} == set()
