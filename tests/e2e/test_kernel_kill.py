"""A service that the kernel ends for want of memory, as an engineer reads it there.

A control group of the first version, which a box does not manage itself, is set around it from outside.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.e2e.box import Bind, Box, why_not
from triage.evidence.live import LiveEvidence
from triage.hosts import ConnectionOptions, open_connection
from triage.workflows import diagnose

pytestmark = pytest.mark.e2e
MEMORY = Path("/sys/fs/cgroup/memory")
LIMIT = 80 << 20  # bytes
SERVER = """\
import os, time
print("[2026-11-29 17:00:51] server_args=ServerArgs(model_path='/m', tp_size=1, pp_size=1)", flush=True)
print("[2026-11-29 17:00:59] Load weight begin. avail mem=139.50 GB", flush=True)
while not os.path.exists("/run/load"):
    time.sleep(0.05)
weights = []
while True:
    weights.append(bytearray(1 << 20))
"""
UNIT = """\
[Service]
ExecStart=/usr/bin/python3 -m sglang.launch_server --model-path /m
Environment=PYTHONPATH=/opt
"""


@pytest.fixture(scope="module")
def box() -> Iterator[Box]:
    reason = why_not() or (
        "" if MEMORY.is_dir() else "memory has no control groups of the first version here"
    )
    if reason:
        refuse = pytest.fail if os.environ.get("TRIAGE_REQUIRE_E2E") == "1" else pytest.skip
        refuse(reason)
    files = {
        "/opt/sglang/__init__.py": "",
        "/opt/sglang/launch_server.py": SERVER,
        "/etc/systemd/system/kimi.service": UNIT,
    }
    kernel_log = Bind("/dev/kmsg")
    with Box("gpu-node8", files=files, binds=[kernel_log], capabilities="CAP_SYSLOG") as running:
        # journald read what the kernel said before the box was there, too, as if it had been said now
        running.run("journalctl --quiet --rotate --vacuum-time=1us", check=True)
        yield running


@contextmanager
def limited(box: Box, script: str) -> Iterator[None]:
    """The process of a box that runs a script, in a control group of its own."""
    home = os.stat(f"/proc/{box.pid}/ns/pid").st_ino
    group = MEMORY / f"triage-{box.pid}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                inside = os.stat(entry / "ns/pid").st_ino == home
                if inside and script.encode() in (entry / "cmdline").read_bytes():
                    (group / "cgroup.procs").write_text(entry.name)
            except OSError:  # it is gone
                continue
        yield
    finally:
        while (group / "cgroup.procs").read_text():
            time.sleep(0.05)
        group.rmdir()


def test_the_kernel_ends_a_service_that_takes_too_much(box: Box) -> None:
    box.run(
        "systemctl start kimi; until journalctl -u kimi | grep -q 'weight begin'; do sleep 0.1; done",
        check=True,
    )
    with limited(box, "sglang.launch_server"):
        box.run(
            "touch /run/load; until systemctl is-failed -q kimi; do sleep 0.1; done", check=True, timeout=30
        )
    box.run("until journalctl -k | grep -q 'Killed process'; do sleep 0.1; done", check=True, timeout=10)
    options = ConnectionOptions(ssh_config=box.ssh_config())
    with closing(open_connection(f"engineer@{box.name}", options)) as connection:
        report = diagnose.diagnose(LiveEvidence(connection), diagnose.load_knowledge(), "kimi")
    (found,) = report.incidents
    kernel, service = found.incident.faults
    assert found.incident.initiator == kernel
    assert (kernel.kind, kernel.type) == ("kernel", "oom-kill")
    assert f"oom_memcg=/triage-{box.pid}" in kernel.message
    assert (service.kind, service.role) == ("service", "teardown")
    assert (found.verdict.category, found.verdict.certainty) == ("host-oom", "confirmed")
    assert found.diagnoses[0].rule == "cgroup-memory-limit"
