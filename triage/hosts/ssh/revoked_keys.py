"""RevokedHostKeys: a file of refused host keys, as lines or as a key revocation list (KRL)."""

from __future__ import annotations

import base64
import binascii
import subprocess
import tempfile
from pathlib import Path

import paramiko

from triage.common.files import open_plain
from triage.hosts.ssh.host_certificates import DAMAGE, read
from triage.hosts.ssh.public_keys import key_of

MAGIC = b"SSHKRL\n\0"
MAX_BYTES = 64 * 1024 * 1024
PATIENCE = 20.0  # seconds


def is_revoked(file: Path, key: bytes, certificate: bytes = b"") -> bool:
    """Return whether the file lists the key, its certificate, or the authority that signed it.

    Raises ValueError with the reason if the file cannot be evaluated.
    """
    try:
        with open_plain(file) as opened:
            data = opened.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 20} MiB")
    if data.startswith(MAGIC):
        return any(_in_list(file, blob) for blob in (key, certificate) if blob)
    listed = {blob for line in data.splitlines() if (blob := _key(line))}
    return not listed.isdisjoint({key, _authority(certificate)} if certificate else {key})


def _key(line: bytes) -> bytes:
    words = line.split()
    if len(words) < 2 or words[0].startswith(b"#"):
        return b""
    try:
        return key_of(base64.b64decode(words[1]))
    except binascii.Error:
        return b""


def _authority(certificate: bytes) -> bytes:
    try:
        return read(certificate).signer
    except DAMAGE as error:
        raise ValueError(f"the host's certificate is damaged ({error})") from None


def _in_list(file: Path, blob: bytes) -> bool:
    """Return whether a KRL lists the key, according to ssh-keygen."""
    line = f"{paramiko.Message(blob).get_text()} {base64.b64encode(blob).decode()}\n"
    with tempfile.NamedTemporaryFile("w", suffix=".pub") as asked:
        asked.write(line)
        asked.flush()
        try:
            done = subprocess.run(
                ["ssh-keygen", "-Q", "-f", str(file), asked.name],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ValueError(f"ssh-keygen, which reads it, does not run: {error}") from None
    if done.returncode == 0:
        return False
    if b"REVOKED" in done.stdout:
        return True
    raise ValueError(
        (done.stderr or done.stdout).decode("utf-8", "replace").strip()[:200] or "ssh-keygen failed"
    )
