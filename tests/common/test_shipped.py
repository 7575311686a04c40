"""Shipped data is found in a checkout and in an installed package."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from triage.common import shipped

ROOT = Path(shipped.__file__).parents[2]


def test_in_a_checkout():
    assert shipped.shipped_directory("playbooks") == ROOT / "playbooks"


def test_in_an_installed_package(tmp_path):
    data = tmp_path / "triage" / "_data" / "playbooks"
    data.mkdir(parents=True)
    (tmp_path / "triage" / "common").mkdir()
    module = shutil.copy(shipped.__file__, tmp_path / "triage" / "common")
    assert runpy.run_path(module)["shipped_directory"]("playbooks") == data
