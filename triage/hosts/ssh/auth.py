"""Authenticates this user to a host: with keys, then with what a person types.

The key of the host was checked before. A passphrase never leaves this machine.
"""

from __future__ import annotations

from collections.abc import Sequence

import paramiko

from triage.common.errors import UnreachableError
from triage.hosts.options import Ask
from triage.hosts.ssh.config import SshTarget
from triage.hosts.ssh.keys import offers

TOO_MANY = (
    "it hung up; where it takes only so many keys, name the right one with IdentityFile and IdentitiesOnly"
)


def authenticate(transport: paramiko.Transport, target: SshTarget, ask: Ask | None = None) -> None:
    """Offer each key until one is accepted, then answer the prompts of the host.

    Raises UnreachableError that lists what was tried.
    """
    tried: list[str] = []
    also: Sequence[str] = ()  # further methods that the host requires after a key
    for label, key in offers(target, tried, ask):
        try:
            more = transport.auth_publickey(target.user, key)
        except paramiko.BadAuthenticationType as error:
            tried.append(f"{label}: the host takes only {', '.join(error.allowed_types)}")
            also = error.allowed_types
            break
        except paramiko.AuthenticationException as error:
            tried.append(f"{label}: {str(error) or 'refused'}".replace("Authentication failed.", "refused"))
            if not transport.is_active():
                tried.append(TOO_MANY)
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


def _accepted(transport: paramiko.Transport, target: SshTarget) -> Sequence[str]:
    """Return the authentication methods that the host accepts."""
    try:
        transport.auth_none(target.user)
    except paramiko.BadAuthenticationType as error:
        return error.allowed_types
    except (paramiko.SSHException, EOFError, OSError):
        pass
    return ()


def _typed(
    transport: paramiko.Transport, target: SshTarget, methods: Sequence[str], ask: Ask, tried: list[str]
) -> bool:
    """Let a person answer the host's prompts, once."""

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
