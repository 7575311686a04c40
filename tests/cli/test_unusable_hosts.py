from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import triage


def test_a_host_that_its_inventory_makes_unusable_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("far ansible_connection=winrm\nlocal\n")
    listed = triage("hosts", "list", "-i", str(path))
    assert listed.returncode == 0
    assert "ansible_connection=winrm is not known" in listed.stdout
    checked = triage("hosts", "check", "far,local", "-i", str(path), "--format", "json")
    rows = {row["name"]: row for row in json.loads(checked.stdout)["hosts"]}
    assert checked.returncode == 2
    assert "cannot be followed: hosts: line 1: ansible_connection=winrm" in rows["far"]["error"]
    assert rows["local"]["access"]["user"]
