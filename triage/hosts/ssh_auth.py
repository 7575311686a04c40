"""Letting ourselves in: agent keys and key files in OpenSSH's order, then what a person types.

The host's key was checked before; a passphrase never leaves this machine.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triage.errors import UnreachableError
from triage.hosts.options import Ask
from triage.hosts.ssh_config import Target

if TYPE_CHECKING:
    import paramiko

AGENT_PATIENCE = 3.0  # seconds; a forwarded agent whose far end is gone never answers
REQUEST_IDENTITIES = b"\x00\x00\x00\x01\x0b"


def authenticate(transport: paramiko.Transport, target: Target, ask: Ask | None = None) -> None:
    """Offer each key until one lets us in, then answer what the host asks.

    Raises UnreachableError that lists what was tried.
    """
    import paramiko

    tried: list[str] = []
    also: Sequence[str] = ()  # what the host wants beside a key
    for label, key in _offers(target, tried, ask):
        try:
            more = transport.auth_publickey(target.user, key)
        except paramiko.BadAuthenticationType as error:
            tried.append(f"{label}: the host takes only {', '.join(error.allowed_types)}")
            also = error.allowed_types
            break
        except paramiko.AuthenticationException as error:
            tried.append(f"{label}: {str(error) or 'refused'}".replace("Authentication failed.", "refused"))
            if not transport.is_active():
                break
            continue
        except (paramiko.SSHException, EOFError, OSError) as error:
            tried.append(f"{label}: {error}")
            break
        if not more:
            return
        tried.append(f"{label}: accepted, but the host also wants {', '.join(more)}")
        also = more
        break
    if (
        ask is not None
        and target.prompts
        and transport.is_active()
        and _typed(transport, target, also or _accepted(transport, target), ask, tried)
    ):
        return
    raise UnreachableError(
        "logging in to",
        target.address,
        "authentication failed (" + ("; ".join(tried) or "no key to offer, and no agent") + ")",
        f"ssh -v -p {target.port} {target.user}@{target.hostname} true",
    )


def _accepted(transport: paramiko.Transport, target: Target) -> Sequence[str]:
    """The methods that the host takes."""
    import paramiko

    try:
        transport.auth_none(target.user)
    except paramiko.BadAuthenticationType as error:
        return error.allowed_types
    except (paramiko.SSHException, EOFError, OSError):
        pass
    return ()


def _typed(
    transport: paramiko.Transport, target: Target, methods: Sequence[str], ask: Ask, tried: list[str]
) -> bool:
    """Let a person answer the host, once."""
    import paramiko

    def answers(title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        return [ask(f"{target.address}: {text.strip()} ") or "" for text, _ in prompts]

    for method in ("keyboard-interactive", "password"):
        if method not in methods:
            continue
        try:
            if method == "password":
                secret = ask(f"Password of {target.address}: ")
                more = transport.auth_password(target.user, secret, fallback=False) if secret else [method]
            else:
                more = transport.auth_interactive(target.user, answers)
        except (paramiko.SSHException, EOFError, OSError) as error:
            tried.append(f"{method}: {str(error) or 'refused'}".replace("Authentication failed.", "refused"))
            continue
        if not more:
            return True
        tried.append(f"{method}: the host also wants {', '.join(more)}")
    return False


def _offers(target: Target, tried: list[str], ask: Ask | None) -> Iterator[tuple[str, paramiko.PKey]]:
    """Keys to offer; what could not be used is noted in `tried`."""
    configured = {blob for path in target.identities if (blob := _public_blob(path))}
    offered: set[bytes] = set()
    for key in _agent_keys(tried) if target.agent else ():
        blob = key.asbytes()
        if not target.identities_only or blob in configured:
            offered.add(blob)
            yield f"agent key {key.get_name()}", key
    for path in target.identities:
        if _public_blob(path) in offered:
            continue
        key_or_reason = _load(path, target.certificates, ask if target.prompts else None)
        if isinstance(key_or_reason, str):
            tried.append(f"{path}: {key_or_reason}")
        else:
            yield str(path), key_or_reason


def _load(
    path: Path, certificates: tuple[Path, ...], ask: Ask | None, secret: str = ""
) -> paramiko.PKey | str:
    """The private key, or why it cannot be used."""
    import paramiko

    try:
        passphrase: Any = secret.encode() if secret else None  # bytes, whatever its stubs say
        key = paramiko.PKey.from_path(path, passphrase)
        for certificate in certificates:
            key.load_certificate(str(certificate))
    except FileNotFoundError:
        return "no such file"
    except (paramiko.PasswordRequiredException, TypeError):  # the latter is cryptography's word for it
        typed = ask(f"Passphrase of {path}: ") if ask and not secret else None
        return _load(path, certificates, None, typed) if typed else f"it has a passphrase; run ssh-add {path}"
    except (OSError, ValueError, paramiko.SSHException) as error:
        return str(error) or type(error).__name__
    return key


def _public_blob(path: Path) -> bytes | None:
    """The public half of an identity file, from the `.pub` beside it."""
    import base64
    import binascii

    try:
        return base64.b64decode(Path(f"{path}.pub").read_text("utf-8").split()[1])
    except (OSError, IndexError, ValueError, binascii.Error):
        return None


def _agent_keys(tried: list[str]) -> tuple[paramiko.PKey, ...]:
    import paramiko

    path = os.environ.get("SSH_AUTH_SOCK", "")
    if not path:
        return ()
    if not _answers(path):
        tried.append(f"the agent at {path} does not answer")
        return ()
    try:
        return tuple(paramiko.Agent().get_keys())
    except (paramiko.SSHException, OSError) as error:
        tried.append(f"agent: {error}")
        return ()


def _answers(path: str) -> bool:
    """Whether an agent listens there; paramiko would wait for it for ever."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(AGENT_PATIENCE)
        try:
            probe.connect(path)
            probe.sendall(REQUEST_IDENTITIES)
        except OSError:
            return False
        return bool(select.select([probe], [], [], AGENT_PATIENCE)[0])
