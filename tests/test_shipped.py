"""Shipped data is found in a checkout and in an installed package."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from triage import shipped

ROOT = Path(shipped.__file__).parent.parent


def test_in_a_checkout():
    assert shipped.shipped_directory("playbooks") == ROOT / "playbooks"


def test_in_an_installed_package(tmp_path):
    data = tmp_path / "triage" / "_data" / "playbooks"
    data.mkdir(parents=True)
    module = shutil.copy(shipped.__file__, tmp_path / "triage")
    assert runpy.run_path(module)["shipped_directory"]("playbooks") == data
