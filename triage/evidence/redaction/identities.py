"""Finds people and machines by the place where evidence names them: records of logins, prefixes, addresses.

A name counts only where its place says what it is, and is then replaced wherever it stands. Names of machines
must have a digit or a hyphen, because `master` and `head` are words, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

Span = tuple[int, int]

_NAME = r"([A-Za-z_][A-Za-z0-9_.-]{1,63})"
_USERS = tuple(
    map(
        re.compile,
        (
            rf"(?:Accepted|Failed) (?:publickey|password|keyboard-\S{{1,20}}) for (?:invalid user )?{_NAME}",
            rf"session (?:opened|closed) for user {_NAME}",
            rf"\buid=\d{{1,10}}\({_NAME}\)",
            rf"(?:^|\s)sudo(?:\[\d{{1,10}}\])?:\s{{1,8}}{_NAME} : ",
            rf"\(to {_NAME}\) [a-z]",
            rf"(?<![A-Z_])(?:USER|LOGNAME|SUDO_USER)=[\"']?{_NAME}",
            rf"/(?:data|mnt|nfs|export|scratch)/(?:home|users)/{_NAME}",
        ),
    )
)
_HOST = r"((?=[A-Za-z0-9.-]{0,62}[0-9-])[A-Za-z][A-Za-z0-9-]{2,62}(?:\.[A-Za-z0-9-]{1,63}){0,6})"
_HOSTS = tuple(
    map(
        re.compile,
        (
            rf"\"_HOSTNAME\" ?: ?\"{_HOST}\"",
            rf"^_HOSTNAME={_HOST}$",
            rf"(?:MASTER_ADDR|HEAD_ADDR|NODE_NAME|HOSTNAME|SLURMD_NODENAME)[\"']?[=:] ?[\"']?{_HOST}",
            rf"--(?:dist-init-addr|master-addr|head-node|node-ip-address)[= ]{_HOST}(?=:|\s|$)",
            r"\b(ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3})(?:\.[a-z0-9-]{1,30}\.compute\.internal|\.ec2\.internal)?",
            rf"(?:tcp|http|https|grpc|nats|redis)://{_HOST}(?=:\d|/|\s|$)",
            rf"(?m:^)[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d {_HOST} [\w./@-]{{1,64}}(?:\[\d{{1,10}}\])?: ",
        ),
    )
)
_PRIVATE = (".internal", ".local", ".lan", ".corp", ".intra", ".cluster", ".hpc", ".private")

_EMAIL = re.compile(
    r"(?<![\w.+/:@-])(?!git@)[A-Za-z0-9][\w.+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.){1,5}"
    r"(?!(?:service|socket|timer|mount|slice|scope|target|path|py|so|json|yaml)\b)[A-Za-z]{2,24}(?![\w@:-])"
)
_MAC = re.compile(r"(?<![\w:-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![\w:-])")


def users_named(text: str) -> Iterator[str]:
    """Yield the names of accounts that records of logins, sudo and the environment tell."""
    for pattern in _USERS:
        yield from (match[1].rstrip(".") for match in pattern.finditer(text))


def hosts_named(text: str) -> Iterator[str]:
    """Yield the names of machines in prefixes, settings and addresses; those of public sites are left out."""
    for pattern in _HOSTS:
        for match in pattern.finditer(text):
            name = match[1].rstrip(".")
            if "." not in name or name.endswith(_PRIVATE):
                yield name


def emails(text: str) -> Iterator[Span]:
    return (match.span() for match in _EMAIL.finditer(text)) if "@" in text else iter(())


def hardware_addresses(text: str) -> Iterator[Span]:
    return (match.span() for match in _MAC.finditer(text))
