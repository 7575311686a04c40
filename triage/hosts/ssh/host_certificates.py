"""Host certificates: host keys that are certified by an authority in known_hosts.

The format is described in PROTOCOL.certkeys of OpenSSH.
"""

from __future__ import annotations

import base64
import fnmatch
import time
from collections.abc import Collection
from dataclasses import dataclass

import paramiko

from triage.hosts.ssh.public_keys import CERTIFICATE, PARTS, KnownHostKey

HOST = 2  # the kind of certificate
DAMAGE = (ValueError, IndexError, OverflowError)  # what reading a damaged one may raise


@dataclass(frozen=True)
class Certificate:
    """A host certificate. Times are in seconds since 1970. `signature` signs the bytes in `signed`."""

    kind: int
    id: str
    principals: tuple[str, ...]
    after: int
    before: int
    critical: bytes
    signer: bytes
    signed: bytes
    signature: bytes


def read(certificate: bytes) -> Certificate:
    """Raises one of DAMAGE."""
    message = paramiko.Message(certificate)
    type_ = message.get_text().removesuffix(CERTIFICATE)
    message.get_binary()  # nonce
    for _ in range(PARTS.get(type_, 2)):
        message.get_binary()
    message.get_int64()  # serial
    kind, id_ = message.get_int(), message.get_text()
    principals = _strings(message.get_binary())
    after, before = message.get_int64(), message.get_int64()
    critical = message.get_binary()
    message.get_binary()  # extensions
    message.get_binary()  # reserved
    signer, signed = message.get_binary(), message.get_so_far()
    return Certificate(
        kind, id_, tuple(principals), after, before, critical, signer, signed, message.get_binary()
    )


def why_not(
    certificate: bytes, name: str, authorities: Collection[KnownHostKey], now: float | None = None
) -> str:
    """Why the certificate does not vouch for the host of that name; "" when it does."""
    now = time.time() if now is None else now
    try:
        found = read(certificate)
        signer_type = paramiko.Message(found.signer).get_text()
        authority = KnownHostKey(signer_type, base64.b64encode(found.signer).decode())
        if authority not in authorities:
            return f"its authority {authority.fingerprint} is not one of this host's"
        signature = paramiko.Message(found.signature)
        if not paramiko.PKey.from_type_string(signer_type, found.signer).verify_ssh_sig(
            found.signed, signature
        ):
            return "its signature is wrong"
    except (paramiko.SSHException, *DAMAGE) as error:
        return f"it is damaged ({error})"
    if found.kind != HOST:
        return "it is a user's, not a host's"
    if found.critical:
        return "it has conditions that are not known here"
    if not found.after <= now < found.before:
        return "it is not valid yet" if now < found.after else "it has expired"
    if found.principals and not any(
        fnmatch.fnmatchcase(name.lower(), each.lower()) for each in found.principals
    ):
        return f"it is that of {', '.join(found.principals[:4])} ({found.id[:80]})"
    return ""


def _strings(data: bytes) -> list[str]:
    message, found = paramiko.Message(data), []
    while message.get_remainder():
        found.append(message.get_text())
    return found
