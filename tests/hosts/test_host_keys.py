from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hosts.conftest import keygen
from triage.hosts import ConnectionOptions
from triage.hosts.ssh.config import SshTarget, resolve
from triage.hosts.ssh.host_keys import known_keys
from triage.hosts.ssh.public_keys import KnownHostKey


@pytest.fixture
def key(tmp_path: Path) -> KnownHostKey:
    keygen(tmp_path / "key")
    return KnownHostKey(*(tmp_path / "key.pub").read_text().split()[:2])


def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, name: str = "gpu01") -> SshTarget:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir(exist_ok=True)
    (tmp_path / ".ssh" / "known_hosts").write_text(line + "\n")
    return resolve(name, ConnectionOptions())


@pytest.mark.parametrize(
    ("field", "name", "known"),
    [
        ("gpu01", "gpu01", True),
        ("GPU01", "gpu01", True),
        ("gpu01,192.0.2.1", "192.0.2.1", True),
        ("gpu0?", "gpu01", True),
        ("*.fleet.example", "a.fleet.example", True),
        ("*,!gpu01", "gpu01", False),
        ("[gpu01]:2222", "gpu01:2222", True),
        ("gpu01", "gpu01:2222", False),
        ("[g]pu01", "gpu01", False),
        ("gpu010", "gpu01", False),
        ("|1|broken", "gpu01", False),
        ("|1|!!!|???", "gpu01", False),
    ],
)
def test_which_names_a_line_speaks_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: KnownHostKey, field: str, name: str, known: bool
) -> None:
    found = known_keys(target(tmp_path, monkeypatch, f"{field} {key.type} {key.text} comment", name))
    assert found == ((key,) if known else ())


@pytest.mark.parametrize(
    "line",
    ["", "#gpu01 ssh-ed25519 AAAA", "gpu01", "gpu01 ssh-ed25519", "@cert-authority gpu01 ssh-ed25519 AAAA"],
)
def test_lines_that_name_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    assert known_keys(target(tmp_path, monkeypatch, line)) == ()


def test_the_fingerprint_is_that_of_ssh_keygen(tmp_path: Path, key: KnownHostKey) -> None:
    told = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "key.pub")], check=True, capture_output=True)
    assert key.fingerprint.split()[1] == told.stdout.split()[1].decode()
