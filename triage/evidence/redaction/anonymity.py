"""Replaces people, machines and addresses with placeholders in evidence that leaves as a case."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator

from triage.common.json import parse_json
from triage.engines import ENGINES
from triage.evidence.recorded import Recorded
from triage.evidence.redaction.identities import emails, hardware_addresses, hosts_named, users_named
from triage.evidence.redaction.named_secrets import Span
from triage.evidence.redaction.redactor import Redactor

# These names identify no person or machine; some of them mean other things in a log.
COMMON = frozenset(
    (
        *(
            "root",
            "nobody",
            "daemon",
            "messagebus",
            "www-data",
            "sshd",
            "ubuntu",
            "debian",
            "admin",
            "user",
            "users",
        ),
        *(
            "ec2-user",
            "centos",
            "rocky",
            "fedora",
            *ENGINES,
            "python",
            "pip",
            "conda",
            "docker",
            "podman",
        ),
        *(
            "local",
            "localhost",
            "model",
            "models",
            "llm",
            "service",
            "services",
            "server",
            "worker",
            "triage",
        ),
        *(
            "opt",
            "srv",
            "usr",
            "var",
            "etc",
            "data",
            "home",
            "share",
            "shared",
            "cache",
            "lib",
            "bin",
            "tmp",
            "test",
        ),
        *(
            "torch",
            "triton",
            "nvidia",
            "cuda",
            "gpu",
            "kernel",
            "systemd",
            "bash",
            "http",
            "host",
            "node",
            "main",
        ),
    )
)
SHORTEST = 3  # letters; shorter names too often mean something else

_HOME = re.compile(r"/(?:home|Users)/([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})")
_UNIT_USER = re.compile(r"^User=([A-Za-z0-9_][A-Za-z0-9_.-]{0,63})$", re.MULTILINE)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.]|\.\d)")
_IPV6 = re.compile(r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:])")
_VERSION_BEFORE = re.compile(
    r"(?:[=~<>!]=|[-_+~]|\bv|version\W{0,4}|-cu1\d\W{0,5}|release\W{0,4})\Z", re.IGNORECASE
)


class Anonymiser:
    """Replaces the names that it was given, and every address except those of the machine itself."""

    def __init__(self, redactor: Redactor, users: Iterable[str], hosts: Iterable[str]) -> None:
        self._redactor = redactor
        self._names = tuple(
            (kind, name, re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])"))
            for kind, names in (("host", hosts), ("user", users))
            for name in sorted(set(names), key=lambda name: (-len(name), name))
            if len(name) >= SHORTEST and name.lower() not in COMMON
        )

    def text(self, text: str) -> str:
        for kind, name, pattern in self._names:
            if name in text:
                text = self._redactor.replace(text, (match.span() for match in pattern.finditer(text)), kind)
        for kind, found in (("email", emails), ("mac", hardware_addresses), ("address", _addresses)):
            text = self._redactor.replace(text, found(text), kind)
        return text


def users_in(recorded: Iterable[Recorded]) -> Iterator[str]:
    """Return the user names in the evidence: from home directories, units, logins and owners of processes."""
    for each in recorded:
        text = each.text or ""
        for pattern in (_HOME, _UNIT_USER):
            for match in pattern.finditer(text):
                yield match[1]
        yield from users_named(text)
        if each.key.startswith("processes "):
            yield from _owners(text)


def hosts_in(recorded: Iterable[Recorded]) -> Iterator[str]:
    """Return the names of machines in the evidence, also of others than its own."""
    for each in recorded:
        if not each.source:
            for name in hosts_named(each.text or ""):
                yield from host_names(name)


def host_names(name: str) -> tuple[str, ...]:
    """Return the names of a machine, the full one and the short one."""
    plain = name.rpartition("@")[2].partition(":")[0]
    return tuple({plain, plain.partition(".")[0]} - {""}) if not _IPV4.fullmatch(plain) else ()


def _owners(text: str) -> Iterator[str]:
    for line in text.splitlines():
        try:
            user = parse_json(line)[2]
        except (ValueError, LookupError, TypeError):
            continue
        if isinstance(user, str):
            yield user


def _addresses(text: str) -> Iterator[Span]:
    for pattern in (_IPV4, _IPV6):
        for match in pattern.finditer(text):
            if _tells_something(match[0]) and not _VERSION_BEFORE.search(
                text, max(0, match.start() - 16), match.start()
            ):
                yield match.span()


def _tells_something(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)
