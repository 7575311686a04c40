"""Checks host keys against known-hosts files, which are read strictly and only ever appended to."""

from __future__ import annotations

import base64
import binascii
import fnmatch
import hashlib
import hmac
import logging
import os
import shlex
import subprocess
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from triage.common.errors import RefusedError, UnreachableError
from triage.common.files import read_plain
from triage.hosts.options import HostKeyPolicy
from triage.hosts.ssh.config import SshTarget
from triage.hosts.ssh.host_certificates import why_not
from triage.hosts.ssh.public_keys import KnownHostKey
from triage.hosts.ssh.revoked_keys import is_revoked
from triage.hosts.ssh.tokens import expanded, tokens_of

MAX_BYTES = 256 << 20  # of known hosts
PATIENCE = 20.0  # seconds for a KnownHostsCommand
# The command is asked for all known keys, because the key of the host is not known yet.
_OF_COMMAND = {"I": "ORDER", "t": "NONE", "K": "NONE", "f": "NONE"}

log = logging.getLogger(__name__)


def authorities(target: SshTarget) -> tuple[KnownHostKey, ...]:
    """Return the authorities whose certificates are valid for the host. As for ssh, a line without the port
    is enough.
    """
    names = dict.fromkeys((target.key_name, target.hostname))
    return tuple(key for name in names for key in known_keys(target, "@cert-authority", name))


def known_keys(target: SshTarget, marker: str = "", name: str = "") -> tuple[KnownHostKey, ...]:
    """Return the keys of the host in its known-hosts files; with `marker`, those with that mark
    (`@revoked`).
    """
    texts = (*map(_text, target.known_hosts), _told(target))
    return tuple(key for text in texts for key in _entries(text, name or target.key_name, marker))


def expected_keys(target: SshTarget) -> tuple[KnownHostKey, ...]:
    """Return the keys of the host. As for ssh, if none is listed by name and port, those of the name alone
    count.
    """
    return known_keys(target) or known_keys(target, name=target.cert_name)


def check(target: SshTarget, key: KnownHostKey, policy: HostKeyPolicy, certificate: bytes = b"") -> None:
    """Raise RefusedError unless `key` is known for the host, certified, or new and may be added."""
    doing, whom, own_file = "checking the host key of", target.alias, target.known_hosts[0]
    names = dict.fromkeys((target.key_name, target.cert_name))
    revoked = [each for name in names for each in known_keys(target, "@revoked", name)]
    if key in revoked:
        raise RefusedError(
            doing,
            whom,
            f"its key {key.fingerprint} is marked as revoked",
            f"ask who runs the host; grep -n @revoked {own_file}",
        )
    if target.revoked:
        _refuse_revoked(target, target.revoked, key, certificate)
    known = known_keys(target)
    if key in (known or expected_keys(target)):
        return
    vouched = ""
    if certificate:
        trusted = [each for each in authorities(target) if each not in revoked]
        vouched = why_not(certificate, target.cert_name, trusted)
        if not vouched:
            return
        vouched = f" (it has a certificate, but {vouched})"
    if known:
        old = ", ".join(other.fingerprint for other in known)
        raise RefusedError(
            doing,
            whom,
            f"the key has CHANGED. Known: {old}. Shown now: {key.fingerprint}{vouched}. "
            "Somebody may be listening in, or the machine was set up anew",
            f"ask whoever runs it; if it was set up anew: ssh-keygen -f {own_file} -R '{target.key_name}', "
            "then repeat with --host-key accept-new",
        )
    if policy == "strict":
        raise RefusedError(
            doing,
            whom,
            f"its key is not known: {key.fingerprint}{vouched}",
            "compare it with `ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub` on the host's own console, "
            "then repeat with --host-key accept-new",
        )
    name = _hashed(target.key_name) if target.hash_names else target.key_name
    _append(own_file, f"{name} {key.type} {key.text}\n")
    log.warning("added the host key of %s to %s: %s", target.key_name, own_file, key.fingerprint)


def _refuse_revoked(target: SshTarget, file: Path, key: KnownHostKey, certificate: bytes) -> None:
    doing = ("checking the host key of", target.alias)
    try:
        if is_revoked(file, base64.b64decode(key.text), certificate):
            happened = f"its key {key.fingerprint} is revoked by {file}"
            raise RefusedError(*doing, happened, "ask who runs the host")
    except ValueError as error:
        happened = f"whether its key is revoked cannot be told from {file}: {error}"
        raise RefusedError(*doing, happened, f"ssh-keygen -Q -l -f {file}") from None


def _hashed(name: str) -> str:
    salt = os.urandom(20)
    parts = (salt, hmac.new(salt, name.encode(), hashlib.sha1).digest())
    return "|1|" + "|".join(base64.b64encode(part).decode() for part in parts)


@lru_cache(maxsize=256)
def _told(target: SshTarget) -> str:
    """Return the output of the KnownHostsCommand, in the format of a known-hosts file."""
    if not target.known_hosts_command:
        return ""
    tokens = tokens_of(target.alias, target.user, target.hostname, target.port, target.cert_name)
    words = [
        expanded(word, {**tokens, **_OF_COMMAND, "H": target.key_name}) for word in target.known_hosts_command
    ]
    doing = ("asking for the host keys of", target.alias)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnreachableError(*doing, f"the KnownHostsCommand: {error}", shlex.join(words)) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()[:200]
        why = f"the KnownHostsCommand ended with {done.returncode}: {said}"
        raise UnreachableError(*doing, why, shlex.join(words))
    return done.stdout.decode("utf-8", "replace")


def _text(path: Path) -> str:
    try:
        return read_plain(path, MAX_BYTES).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
    except ValueError as error:
        raise UnreachableError(
            "reading", f"the known hosts in {path}", f"it is {error}", f"ls -l {path}"
        ) from None
    except OSError as error:
        raise UnreachableError(
            "reading", f"the known hosts in {path}", error.strerror or str(error), f"ls -l {path}"
        ) from None


def _entries(text: str, name: str, marker: str) -> Iterator[KnownHostKey]:
    for line in text.splitlines():
        words = line.split()
        found_marker = words.pop(0) if words and words[0].startswith("@") else ""
        if len(words) >= 3 and found_marker == marker and _names(words[0], name):
            yield KnownHostKey(words[1], words[2])


def _names(patterns: str, name: str) -> bool:
    """Return whether the first field of a line matches `name`: plain, hashed, with wildcards or negated."""
    if patterns.startswith("|1|"):
        salt, _, digest = patterns[3:].partition("|")
        try:
            made = hmac.new(base64.b64decode(salt), name.encode(), hashlib.sha1).digest()
            return hmac.compare_digest(made, base64.b64decode(digest))
        except binascii.Error:
            return False
    listed = patterns.lower().split(",")
    plain = [pattern.replace("[", "[[]") for pattern in listed]  # only * and ? are special here
    if any(fnmatch.fnmatchcase(name.lower(), pattern[1:]) for pattern in plain if pattern.startswith("!")):
        return False
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in plain)


def _append(path: Path, line: str) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            gap = b"" if size == 0 or file.read(1) == b"\n" else b"\n"
            file.write(gap + line.encode())
    except OSError as error:
        raise UnreachableError(
            "adding the host key to", str(path), error.strerror or str(error), f"ls -ld {path.parent} {path}"
        ) from None
