"""Machines of other Debian suites, with the stand-in as a system unit and as a unit of user `ops`."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.box import Box
from tests.e2e.box.box import Content
from tests.patching.trees import POOL_SOURCE, install

HERE = Path(__file__).parent
SERVER = HERE.parents[1] / "verify" / "server.py"
HOST = "gpu01"
UNIT = "sglang-kimi.service"
SYSTEMD = {"bullseye": "247", "bookworm": "252", "trixie": "257", "sid": "262"}

_SERVICE = """\
[Service]
Environment=PYTHONUNBUFFERED=1 "NCCL_DEBUG=WARN" SGLANG_CALM={calm}
WorkingDirectory=/opt
ExecStart=/opt/sglang/bin/python -m sglang.launch_server --model-path "/srv/a model" \\
    --attention-backend triton --pp-size 8 --port {port}
"""
POOL = POOL_SOURCE.partition("class SWAKVPool")[0]  # without the one that would have to be told apart
_MODEL = json.dumps({"num_hidden_layers": 61, "model_type": "kimi_k2"})
# Debian's libpam-systemd and dbus-user-session do this; the box has neither.
_MANAGER = "[Service]\nEnvironment=XDG_RUNTIME_DIR=/run/user/%i\n"
_BUS_SOCKET = "[Socket]\nListenStream=%t/bus\n"
_BUS = """\
[Unit]
Requires=dbus.socket
[Service]
Type=notify
ExecStart=/usr/bin/dbus-daemon --session --address=systemd: --nofork --nopidfile --syslog-only
"""
_SETUP = """\
set -e
python3 -m venv --without-pip /opt/sglang
site=$(echo /opt/sglang/lib/python3*/site-packages)
cp -r /opt/packages/. $site/
chown -R ops: /home/ops; mkdir -p /etc/systemd/user/sockets.target.wants /var/log/journal
ln -s ../dbus.socket /etc/systemd/user/sockets.target.wants/
journalctl --flush
systemctl daemon-reload; loginctl enable-linger ops
until systemctl is-active -q user@$(id -u ops); do sleep 0.1; done
systemctl start sglang-kimi
until systemctl is-failed -q sglang-kimi; do sleep 0.1; done
own() { runuser -u ops -- env XDG_RUNTIME_DIR=/run/user/$(id -u ops) systemctl --user "$@"; }
until own is-active -q dbus.socket; do sleep 0.1; done
own start own-kimi
until own is-failed -q own-kimi; do sleep 0.1; done
"""


@dataclass(frozen=True)
class Machine:
    box: Box
    state: Path

    def triage(self, *arguments: str, user: str = "root") -> subprocess.CompletedProcess[str]:
        """A command of triage, as a person would type it."""
        environment = {
            **os.environ,
            "TRIAGE_SSH_CONFIG": str(self.box.ssh_config()),
            "XDG_STATE_HOME": str(self.state),
        }
        words = [f"{user}@{HOST}" if word == HOST else word for word in arguments]
        argv = [sys.executable, "-m", "triage", *words]
        return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=180)

    def told(self, *arguments: str, user: str = "root", code: int = 0) -> Any:
        """The JSON of a command, with the exit code that it must have."""
        done = self.triage(*arguments, "--format", "json", user=user)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@contextlib.contextmanager
def machine(suite: str, more: Mapping[str, Content] | None = None, calm: int = 20_000) -> Iterator[Machine]:
    """A booted box of the suite on which both units have crashed after `calm` lines, with more files."""
    with socket.socket() as probe:  # boxes share this machine's loopback
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        packages = install(Path(directory) / "packages", memory_pool=POOL)
        (packages / "sglang" / "launch_server.py").write_text((HERE / "launch_server.py").read_text())
        (packages / "sglang-0.5.11.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.11\n"
        )
        files: dict[str, Content] = {
            **(more or {}),
            "/opt/packages": packages,
            "/opt/server.py": SERVER.read_text(),
            "/srv/a model/config.json": _MODEL,
            f"/etc/systemd/system/{UNIT}": _SERVICE.format(port=port, calm=calm),
            "/etc/systemd/journald.conf.d/all.conf": "[Journal]\nRateLimitIntervalSec=0\n",
            "/etc/systemd/system/user@.service.d/runtime.conf": _MANAGER,
            "/etc/systemd/user/dbus.socket": _BUS_SOCKET,
            "/etc/systemd/user/dbus.service": _BUS,
            "/home/ops/.config/systemd/user/own-kimi.service": _SERVICE.format(port=port, calm=calm),
        }
        with Box(HOST, suite=suite, files=files) as box:
            box.run(_SETUP, check=True)
            yield Machine(box, Path(directory) / "state")
