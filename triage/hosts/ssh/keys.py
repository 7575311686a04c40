"""Keys to offer a host, in OpenSSH's order: those of the agent, configured ones first, then files.

Each key is offered with its certificates first, then alone. The formats are described in PROTOCOL.key and
PROTOCOL.certkeys of OpenSSH.
"""

from __future__ import annotations

import base64
import binascii
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import paramiko
from paramiko.agent import AgentSSH

from triage.common.files import open_plain
from triage.hosts.options import Ask
from triage.hosts.ssh.config import SshTarget
from triage.hosts.ssh.public_keys import key_of

AGENT_PATIENCE = 3.0  # seconds; a forwarded agent whose other end is gone never answers
SIGNING = 60.0  # seconds, because somebody may have to touch the key
MAX_BYTES = 64 * 1024  # of a key file
_PRIVATE = re.compile(rb"-----BEGIN OPENSSH PRIVATE KEY-----(.*?)-----END", re.DOTALL)
_MAGIC = b"openssh-key-v1\0"

# certificates by their public key
Certificates = Mapping[bytes, tuple[tuple[str, paramiko.pkey.PublicBlob], ...]]


def offers(target: SshTarget, tried: list[str], ask: Ask | None) -> Iterator[tuple[str, paramiko.PKey]]:
    """Return keys, each with its name. Keys that could not be used are noted in `tried`."""
    halves = {path: half for path in target.identities if (half := public_half(path))}
    certificates = _certificates(target, tried)
    offered: set[bytes] = set()
    with closing(_Agent()) as agent:
        keys = agent.keys(target.agent, tried) if target.agent else ()
        for key in sorted(keys, key=lambda key: key_of(key.asbytes()) not in halves.values()):
            half = key_of(key.asbytes())
            if not target.identities_only or half in halves.values():
                offered.add(half)
                yield from _with_certificates(f"agent key {key.get_name()}", key, half, certificates)
        for path in target.identities:
            if halves.get(path) in offered:
                continue
            key_or_reason = _load(path, ask if target.prompts else None)
            if isinstance(key_or_reason, str):
                tried.append(f"{path}: {key_or_reason}")
            else:
                yield from _with_certificates(str(path), key_or_reason, key_or_reason.asbytes(), certificates)


def public_half(path: Path) -> bytes | None:
    """Return the public key of an identity file: of a private OpenSSH key, a public key, or the `.pub` beside
    it.
    """
    for file in (path, path.with_name(f"{path.name}.pub")):
        data = _read(file)
        with suppress(ValueError, IndexError, paramiko.SSHException):
            if private := _PRIVATE.search(data):
                body = base64.b64decode(private[1])
                if body.startswith(_MAGIC):
                    message = paramiko.Message(body[len(_MAGIC) :])
                    for _ in ("cipher", "kdf", "its options"):
                        message.get_binary()
                    message.get_int()
                    return message.get_binary()
            elif _is_public(data):
                return key_of(base64.b64decode(data.split()[1]))
    return None


def _with_certificates(
    label: str, key: paramiko.PKey, half: bytes, certificates: Certificates
) -> Iterator[tuple[str, paramiko.PKey]]:
    for name, certificate in certificates.get(half, ()):
        key.public_blob = certificate
        yield f"{label} with {name}", key
    key.public_blob = None
    yield label, key


def _certificates(target: SshTarget, tried: list[str]) -> Certificates:
    """Return the named certificates, and those beside the identity files."""
    found: dict[bytes, tuple[tuple[str, paramiko.pkey.PublicBlob], ...]] = {}
    beside = [path.with_name(f"{path.name.removesuffix('.pub')}-cert.pub") for path in target.identities]
    for path in dict.fromkeys((*target.certificates, *(each for each in beside if each.exists()))):
        try:
            certificate = paramiko.pkey.PublicBlob.from_string(_read(path).decode("utf-8"))
        except (ValueError, binascii.Error, paramiko.SSHException) as error:
            tried.append(f"{path}: {error if path.exists() else 'no such file'}")
            continue
        half = key_of(certificate.key_blob)
        found[half] = (*found.get(half, ()), (path.name, certificate))
    return found


def _load(path: Path, ask: Ask | None, secret: str = "") -> paramiko.PKey | str:
    """Return the private key, or the reason why it cannot be used."""
    if _is_public(_read(path)):
        return "it is a public key, whose private half is in no agent here"
    try:
        passphrase: Any = secret.encode() if secret else None  # bytes, although the type stubs say text
        return paramiko.PKey.from_path(path, passphrase)
    except FileNotFoundError:
        return "no such file"
    except (paramiko.PasswordRequiredException, TypeError):  # the latter is cryptography's message
        typed = ask(f"Passphrase of {path}: ") if ask and not secret else None
        return _load(path, None, typed) if typed else f"it has a passphrase; run ssh-add {path}"
    except (OSError, ValueError, paramiko.SSHException) as error:
        return str(error) or type(error).__name__


def _read(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            return file.read(MAX_BYTES)
    except OSError:
        return b""


def _is_public(data: bytes) -> bool:
    return data.startswith((b"ssh-", b"ecdsa-", b"sk-"))


class _Agent(AgentSSH):
    """An agent at a given socket, which may be slow to sign but not to answer."""

    def keys(self, path: str, tried: list[str]) -> tuple[paramiko.AgentKey, ...]:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(AGENT_PATIENCE)
        self._conn = connection
        try:
            connection.connect(path)
            self._connect(connection)  # type: ignore[attr-defined]
        except TimeoutError:
            tried.append(f"the agent at {path} does not answer")
        except (paramiko.SSHException, OSError) as error:
            tried.append(f"the agent at {path}: {getattr(error, 'strerror', None) or error}")
        connection.settimeout(SIGNING)
        return self.get_keys()

    def close(self) -> None:
        self._close()  # type: ignore[attr-defined]
