"""A real sshd on a loopback port, with its own keys, configuration and home directory."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from triage.hosts import ConnectionOptions

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"


@dataclass
class Server:
    """One sshd, and the client's side of things: a home with keys, known_hosts and config."""

    port: int
    home: Path
    directory: Path
    process: subprocess.Popen[bytes]

    @property
    def config(self) -> Path:
        return self.home / ".ssh" / "config"

    @property
    def known_hosts(self) -> Path:
        return self.home / ".ssh" / "known_hosts"

    def trust(self) -> None:
        """Put the host's present key into known_hosts."""
        words = (self.directory / "host_key.pub").read_text().split()
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {words[0]} {words[1]}\n")

    def alias(self, *lines: str, name: str = "box") -> None:
        """Write an ssh configuration with one host."""
        text = "\n  ".join([f"Host {name}", "HostName 127.0.0.1", f"Port {self.port}", *lines])
        self.config.write_text(text + "\n")

    def options(self, **changes: object) -> ConnectionOptions:
        return ConnectionOptions(**changes)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


def keygen(path: Path, kind: str = "ed25519", passphrase: str = "") -> Path:
    path.unlink(missing_ok=True)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path)],
        check=True,
        timeout=60,
    )
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_sshd(directory: Path, home: Path, extra: str = "") -> Server:
    """An sshd as the user who runs the tests, who may log in with `home/.ssh/id_ed25519`."""
    port = free_port()
    config = directory / "sshd_config"
    config.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\nUsePAM no\n"
        f"PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\n"
        f"LogLevel INFO\n{extra}\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    log = (directory / "sshd.log").open("ab")
    process = subprocess.Popen([SSHD, "-D", "-e", "-f", str(config)], stderr=log, stdin=subprocess.DEVNULL)
    log.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return Server(port, home, directory, process)
        assert process.poll() is None, (directory / "sshd.log").read_text()
        time.sleep(0.05)
    raise AssertionError("sshd did not come up: " + (directory / "sshd.log").read_text())


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running sshd whose key is known, for a client whose key it takes."""
    if not Path(SSHD).exists():
        refuse = pytest.fail if os.environ.get("TRIAGE_REQUIRE_E2E") == "1" else pytest.skip
        refuse("there is no sshd: apt-get install openssh-server")
    home, directory = tmp_path / "home", tmp_path / "sshd"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    directory.mkdir()
    keygen(directory / "host_key")
    keygen(home / ".ssh" / "id_ed25519")
    shutil.copy(home / ".ssh" / "id_ed25519.pub", directory / "authorized_keys")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    running = start_sshd(directory, home)
    running.trust()
    running.alias()
    yield running
    running.stop()
