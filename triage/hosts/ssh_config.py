"""Where a host's name leads, as `~/.ssh/config` has it."""

from __future__ import annotations

import getpass
import glob
import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from triage.errors import UsageError
from triage.hosts.options import ConnectionOptions

if TYPE_CHECKING:
    import paramiko

DEFAULT_KNOWN_HOSTS = ("~/.ssh/known_hosts", "~/.ssh/known_hosts2")
GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")
DEFAULT_IDENTITIES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
NO_FILE = ("none", "/dev/null", "")  # a known_hosts file that remembers nothing would accept anything

_NAME = re.compile(
    r"(?:ssh://)?(?:(?P<user>[A-Za-z0-9_][A-Za-z0-9_.@+-]*)@)?"
    r"(?:\[(?P<bracketed>[0-9A-Za-z:.%_-]+)\]|(?P<host>[A-Za-z0-9_][A-Za-z0-9_.-]*))"
    r"(?::(?P<port>[0-9]{1,5}))?/?"
)
_BARE_IPV6 = re.compile(r"[0-9A-Fa-f]*:[0-9A-Fa-f:.]+")
_INCLUDE_DEPTH = 16  # as in OpenSSH


@dataclass(frozen=True)
class Target:
    """One machine to connect to, and how."""

    alias: str
    user: str
    hostname: str
    port: int
    key_name: str  # under which known_hosts has it
    cert_name: str  # as a host certificate calls it: without the port
    known_hosts: tuple[Path, ...]  # the first one takes new keys
    identities: tuple[Path, ...]
    identities_only: bool
    agent: bool
    certificates: tuple[Path, ...]
    proxy_command: str
    jumps: tuple[str, ...]
    connect_timeout: float
    keepalive: int  # seconds, 0 for none
    compression: bool
    prompts: bool  # whether a person may be asked

    @property
    def address(self) -> str:
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{host}:{self.port}"


def resolve(name: str, options: ConnectionOptions) -> Target:
    """The target that `name` means. Raises UsageError for a name or a configuration that is broken."""
    user, alias, port = _split(name)
    config = _lookup(options.address or alias, options)

    def value(key: str, default: str = "") -> str:
        return str(config.get(key) or default)

    hostname = value("hostname", options.address or alias)
    try:
        port = port or options.port or int(value("port", "22"))
        timeout = float(value("connecttimeout", str(options.connect_timeout)))
        keepalive = int(value("serveraliveinterval", "30"))
    except ValueError as error:
        raise UsageError(
            "reading", f"the ssh configuration of {alias}", str(error), f"ssh -G {shlex.quote(alias)}"
        ) from None
    key_name = value("hostkeyalias") or (hostname if port == 22 else f"[{hostname}]:{port}")
    identities = config.get("identityfile") or [
        path for path in DEFAULT_IDENTITIES if Path(path).expanduser().exists()
    ]
    if options.identity_file:
        identities = [str(options.identity_file), *identities]
    jump = value("proxyjump", "none")
    certificates = value("certificatefile")
    return Target(
        alias=alias,
        user=user or options.user or value("user") or getpass.getuser(),
        hostname=hostname,
        port=port,
        key_name=key_name,
        cert_name=value("hostkeyalias") or hostname,
        known_hosts=_known_hosts(value("userknownhostsfile"), value("globalknownhostsfile")),
        identities=tuple(Path(path).expanduser() for path in identities),
        identities_only=value("identitiesonly").lower() == "yes",
        agent=value("identityagent").lower() != "none",
        certificates=(Path(certificates).expanduser(),) if certificates else (),
        proxy_command=value("proxycommand"),
        jumps=() if jump.lower() == "none" else tuple(part.strip() for part in jump.split(",")),
        connect_timeout=timeout if timeout > 0 else options.connect_timeout,
        keepalive=keepalive,
        compression=value("compression").lower() == "yes",
        prompts=value("batchmode").lower() != "yes",
    )


def _split(name: str) -> tuple[str, str, int]:
    """User, host and port of a name; "" and 0 where it does not say."""
    match = _NAME.fullmatch(name)
    if match is None and _BARE_IPV6.fullmatch(name):
        return "", name, 0
    port = int(match["port"] or 0) if match else 0
    if match is None or port > 65535:
        raise UsageError(
            "connecting to",
            repr(name),
            "this is not a host name",
            "give `local`, an ssh alias or user@host:port",
        )
    return match["user"] or "", match["bracketed"] or match["host"], port


def _known_hosts(user_files: str, global_files: str) -> tuple[Path, ...]:
    own = [file for file in user_files.split() if file.lower() not in NO_FILE] or DEFAULT_KNOWN_HOSTS
    shared = [file for file in global_files.split() or GLOBAL_KNOWN_HOSTS if file.lower() not in NO_FILE]
    return tuple(Path(file).expanduser() for file in (*own, *shared))


def _lookup(alias: str, options: ConnectionOptions) -> paramiko.SSHConfigDict:
    import paramiko

    path = (options.ssh_config or Path("~/.ssh/config")).expanduser()
    if not path.exists():
        if options.ssh_config:
            raise UsageError(
                "reading", f"the ssh configuration {path}", "there is no such file", f"ls -l {path.parent}"
            )
        return paramiko.SSHConfig.from_text("").lookup(alias)
    try:
        return paramiko.SSHConfig.from_text("\n".join(_lines(path, 0))).lookup(alias)
    except (paramiko.SSHException, OSError, ValueError, ImportError) as error:
        reason = getattr(error, "strerror", None) or str(error) or repr(error)
        check = f"ssh -F {path} -G {shlex.quote(alias)}"
        raise UsageError("reading", f"the ssh configuration {path}", reason, check) from None


def _lines(path: Path, depth: int) -> list[str]:
    """The file's lines with each Include in place of its line, as OpenSSH reads them."""
    if depth > _INCLUDE_DEPTH:
        raise ValueError(f"Include is nested more than {_INCLUDE_DEPTH} deep at {path}")
    lines: list[str] = []
    for line in path.read_text("utf-8", "replace").splitlines():
        words = line.strip().replace("=", " ", 1).split()
        if not words or words[0].lower() != "include":
            lines.append(line)
            continue
        for pattern in words[1:]:
            full = os.path.join(Path("~/.ssh").expanduser(), os.path.expanduser(pattern.strip('"')))
            for included in sorted(glob.glob(full)):
                lines += _lines(Path(included), depth + 1)
    return lines


def aliases(ssh_config: Path | None) -> tuple[str, ...]:
    """The hosts that an ssh configuration names, without patterns. Raises UsageError for a broken one."""
    path = (ssh_config or Path("~/.ssh/config")).expanduser()
    try:
        words = [line.strip().replace("=", " ", 1).split() for line in _lines(path, 0)]
    except FileNotFoundError:
        return ()
    except (OSError, ValueError) as error:
        raise UsageError(
            "reading", f"the ssh configuration {path}", str(error), f"ssh -F {path} -G HOST"
        ) from None
    named = (name.strip('"') for line in words if line and line[0].lower() == "host" for name in line[1:])
    return tuple(dict.fromkeys(name for name in named if not re.search(r"[*?!]", name)))
