"""Resolves the name of a host by `~/.ssh/config`."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from triage.common.errors import UsageError
from triage.hosts.options import ConnectionOptions
from triage.hosts.ssh.settings import Settings, account_home, settings
from triage.hosts.ssh.tokens import Tokens, expanded, path_of, tokens_of

DEFAULT_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
DEFAULT_IDENTITIES = ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk", "xmss", "dsa")  # ~/.ssh/id_*
KEEPALIVE = 30  # seconds, if the configuration sets none: a host that is gone must be noticed
NO_FILE = ("none", "/dev/null", "")  # a known_hosts file that remembers nothing would accept any key

_NAME = re.compile(
    r"(?:ssh://)?(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.@+-]*)@)?"
    r"(?:\[(?P<bracketed>[0-9A-Za-z:.%_-]+)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
_BARE_IPV6 = re.compile(r"[0-9A-Fa-f]*:[0-9A-Fa-f:.]+")
_BETWEEN_PATHS = re.compile(r" (?=[/~$%]|none$)")  # `ssh -G` prints several values without quotes


@dataclass(frozen=True)
class SshTarget:
    """One machine and all settings for connecting to it."""

    alias: str
    user: str
    hostname: str
    port: int
    key_name: str  # the name under which known_hosts has it
    cert_name: str  # the name in a host certificate, without the port
    known_hosts: tuple[Path, ...]  # new keys are added to the first one
    identities: tuple[Path, ...]
    identities_only: bool
    agent: str  # the socket of the agent, "" for none
    certificates: tuple[Path, ...]
    known_hosts_command: tuple[str, ...]  # words whose tokens are not expanded yet
    revoked: Path | None  # files of refused host keys
    hash_names: bool  # hash names in known_hosts
    bind_address: str  # the address to connect from
    family: str  # any, inet, inet6
    proxy_command: str
    passes_socket: bool  # the proxy command opens the connection and hands over its socket
    jumps: tuple[str, ...]
    connect_timeout: float
    keepalive: int  # seconds
    compression: bool
    prompts: bool  # no person may be asked

    @property
    def address(self) -> str:
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{host}:{self.port}"


def resolve(name: str, options: ConnectionOptions) -> SshTarget:
    """Return the target for `name`. Raises UsageError for an invalid name or a broken configuration."""
    user, alias, port = _split(name)
    asked = options.address or alias
    found = settings(
        asked, user or options.user, port or options.port, options.ssh_config, options.ssh_arguments
    )

    def value(key: str, default: str = "") -> str:
        text = found.get(key, ("",))[0]
        return default if text.lower() in ("", "none") else text

    try:
        port = int(value("port", "22"))
        timeout = float(value("connecttimeout", "0")) or options.connect_timeout
        keepalive = int(value("serveraliveinterval", "0")) or KEEPALIVE
        user, hostname = value("user", getpass.getuser()), value("hostname", asked)
        key_alias = value("hostkeyalias")
        tokens = tokens_of(asked, user, hostname, port, key_alias or asked)
        return SshTarget(
            alias=alias,
            user=user,
            hostname=hostname,
            port=port,
            key_name=key_alias or (hostname if port == 22 else f"[{hostname}]:{port}"),
            cert_name=key_alias or hostname,
            known_hosts=_known_hosts(found),
            identities=_identities(found.get("identityfile", ()), options.identity_file, tokens),
            identities_only=value("identitiesonly") == "yes",
            agent=_agent(found.get("identityagent", ("",))[0], tokens),
            certificates=tuple(
                path_of(each, tokens) for each in found.get("certificatefile", ()) if each.lower() != "none"
            ),
            revoked=path_of(value("revokedhostkeys"), tokens) if value("revokedhostkeys") else None,
            hash_names=value("hashknownhosts") == "yes",
            bind_address=value("bindaddress"),
            family=value("addressfamily", "any").lower(),
            passes_socket=value("proxyusefdpass") == "yes",
            known_hosts_command=tuple(shlex.split(value("knownhostscommand"))),
            proxy_command=expanded(value("proxycommand"), tokens),
            jumps=tuple(part.strip() for part in expanded(value("proxyjump"), tokens).split(",") if part),
            connect_timeout=timeout,
            keepalive=keepalive,
            compression=value("compression") == "yes",
            prompts=value("batchmode") != "yes",
        )
    except ValueError as error:
        raise UsageError(
            "reading", f"the ssh configuration of {alias}", str(error), f"ssh -G {shlex.quote(alias)}"
        ) from None


def _split(name: str) -> tuple[str, str, int]:
    """Split a name into user, host and port; "" and 0 for parts that it does not have."""
    match = _NAME.fullmatch(name)
    if match is None and _BARE_IPV6.fullmatch(name):
        return "", name, 0
    port = int(match["port"] or 0) if match else 0
    if match is None or port > 65535 or (match["port"] and not port):
        raise UsageError(
            "connecting to",
            repr(name),
            "this is not a host name",
            "give `local`, an ssh alias or user@host:port",
        )
    return match["user"] or "", match["bracketed"] or match["host"], port


def _known_hosts(found: Settings) -> tuple[Path, ...]:
    files = {
        key: [each for each in _BETWEEN_PATHS.split(found.get(key, ("",))[0]) if each.lower() not in NO_FILE]
        for key in ("userknownhostsfile", "globalknownhostsfile")
    }
    own = files["userknownhostsfile"]
    if not own or own == [str(account_home() / path[2:]) for path in DEFAULT_KNOWN_HOSTS]:
        own = list(DEFAULT_KNOWN_HOSTS)
    shared = files["globalknownhostsfile"] or GLOBAL_KNOWN_HOSTS
    return tuple(Path(file).expanduser() for file in (*own, *shared))


def _identities(configured: tuple[str, ...], first: Path | None, tokens: Tokens) -> tuple[Path, ...]:
    """Return the identity files. The default ones are included only if they exist."""
    default = {Path(f"~/.ssh/id_{name}").expanduser() for name in DEFAULT_IDENTITIES}
    paths = [path_of(each, tokens) for each in configured if each.lower() != "none"]
    if not configured:
        paths = sorted(default)
    there = [each for each in paths if each not in default or each.exists() or _public(each).exists()]
    return tuple(dict.fromkeys((first, *there) if first else there))


def _public(path: Path) -> Path:
    return path.with_name(f"{path.name}.pub")


def _agent(configured: str, tokens: Tokens) -> str:
    if configured.lower() == "none":
        return ""
    if configured in ("", "SSH_AUTH_SOCK"):
        return os.environ.get("SSH_AUTH_SOCK", "")
    if re.fullmatch(r"\$\w+", configured):
        return os.environ.get(configured[1:], "")
    return str(path_of(configured, tokens))
