"""Where an engine lies in what a person names."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patching.trees import install
from triage.common.errors import UsageError
from triage.patching.trees import find_python, find_root


@pytest.mark.parametrize(
    ("place", "named"),
    [
        ("site-packages", "site-packages"),
        ("site-packages", "site-packages/sglang"),
        ("wheel", "wheel"),
        ("venv/lib/python3.11/site-packages", "venv"),
        ("usr/local/lib/python3.12/dist-packages", "usr"),
        ("checkout/python", "checkout"),
        ("checkout/src", "checkout"),
    ],
)
def test_places(tmp_path: Path, place: str, named: str) -> None:
    install(tmp_path / place)
    assert find_root(tmp_path / named) == (tmp_path / place, "sglang")


def test_an_editable_installation_leads_to_its_checkout(tmp_path: Path) -> None:
    """As pip itself writes it down, with a blank in the path."""
    checkout = tmp_path / "my checkout" / "python"
    install(checkout)
    (checkout / "pyproject.toml").write_text('[project]\nname = "sglang"\nversion = "0.5.11"\n')
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True, timeout=60)
    (site,) = venv.glob("lib/python3.*/site-packages")
    info = site / "sglang-0.5.11.dist-info"
    info.mkdir()
    said = f'{{"dir_info": {{"editable": true}}, "url": "{checkout.as_uri()}"}}'
    (info / "direct_url.json").write_text(said)
    assert find_root(venv) == (checkout, "sglang")
    assert os.path.samefile(find_python(venv), sys.executable)

    (info / "direct_url.json").write_text(said.replace("true", "false"))  # a copy was installed
    with pytest.raises(UsageError):
        find_root(venv)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"url": 3, "dir_info": {"editable": true}}'])
def test_what_an_installer_wrote_down_may_be_anything(tmp_path: Path, text: str) -> None:
    (tmp_path / "sglang-1.dist-info").mkdir()
    (tmp_path / "sglang-1.dist-info" / "direct_url.json").write_text(text)
    with pytest.raises(UsageError, match="no package sglang or vllm"):
        find_root(tmp_path)
    assert find_python(tmp_path) == ""
