"""Public keys, as lines of known_hosts and in the form in which they travel. PROTOCOL.certkeys of OpenSSH."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

import paramiko

CERTIFICATE = "-cert-v01@openssh.com"  # what the type of a certificate ends with
PARTS = {"ssh-ed25519": 1, "sk-ecdsa-sha2-nistp256@openssh.com": 3}  # of a public key; others have 2


@dataclass(frozen=True)
class KnownHostKey:
    """A public key: its type (`ssh-ed25519`) and its base64 text, as known_hosts has them."""

    type: str
    text: str

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint as `ssh-keygen -l` shows it."""
        try:
            digest = hashlib.sha256(base64.b64decode(self.text)).digest()
        except binascii.Error:
            return f"{self.type} (unreadable)"
        return f"{self.type} SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def key_of(blob: bytes) -> bytes:
    """The public key that a certificate is of; any other as it is."""
    message = paramiko.Message(blob)
    try:
        name, plain = message.get_text(), paramiko.Message()
        type_ = name.replace(CERTIFICATE, "@openssh.com" if name.startswith("sk-") else "")
        if type_ == name:
            return blob
        message.get_binary()  # nonce
        plain.add_string(type_)
        for _ in range(PARTS.get(type_, 2)):
            plain.add_string(message.get_binary())
    except (UnicodeError, ValueError):
        return blob
    return plain.asbytes()
