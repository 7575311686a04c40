"""Several machines at once: the same service failed on two, and does not run on a third."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import triage
from tests.e2e.box import Box
from tests.e2e.conftest import BoxFactory

SERVER = """\
def start():
    raise IndexError("list index out of range")
start()
"""
UNIT = """\
[Service]
WorkingDirectory=/srv/code
ExecStart=/usr/bin/python3 -m sglang.launch_server --model-path /srv/m --pp-size 8
"""
FILES = {
    "/srv/code/sglang/__init__.py": "",
    "/srv/code/sglang/launch_server.py": SERVER,
    "/etc/systemd/system/kimi.service": UNIT,
}
FAIL = "systemctl start kimi; until systemctl is-failed -q kimi; do sleep 0.1; done"


@pytest.fixture
def boxes(box_factory: BoxFactory) -> list[Box]:
    made = [box_factory(f"node{number}", files=FILES if number < 3 else {}) for number in (1, 2, 3)]
    for box in made[:2]:
        box.run(FAIL, check=True)
    return made


def test_one_answer_for_a_fleet(boxes: list[Box], tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("".join(box.ssh_config().read_text() for box in boxes))
    inventory = tmp_path / "hosts.ini"
    inventory.write_text(
        "[kimi]\nnode[1:2] ansible_user=engineer\n[all-nodes:children]\nkimi\n[all-nodes]\nnode3\n"
    )
    words = ("-F", str(config), "-i", str(inventory))
    done = triage("diagnose", "all-nodes", *words)
    assert done.returncode == 3, done.stderr
    assert "== 2 hosts: node1, node2\n" in done.stdout
    assert done.stdout.count("WHAT HAPPENED") == 1
    assert "no answer:   node3: finding an inference service on node3: no service unit" in done.stdout
    document = json.loads(triage("diagnose", "kimi", *words, "--format", "json").stdout)
    assert [host["exit_code"] for host in document["hosts"]] == [1, 1]
    (alike,) = document["alike"]
    assert alike["hosts"] == ["node1", "node2"]
    checked = triage("hosts", "check", *words)
    assert checked.returncode == 0, checked.stderr
    told = {line.split()[0]: line for line in checked.stdout.splitlines()}
    assert "engineer@127.0.1." in told["node1"]
    assert "  sudo wants a password  journal  python 3." in told["node1"]
    assert "root@" in told["node3"]
