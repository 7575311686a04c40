"""Which hosts there are, how each is reached, and what they are called together.

A file of our own, hosts.yaml:

    vars: {user: ops}                         # of every host
    hosts:
      gpu[01:12]:                             # gpu01 to gpu12; settings only where ~/.ssh/config lacks them
      old: {address: 10.0.0.9, port: 2222, identity_file: ~/.ssh/old, become: true}
    groups:
      kimi: {hosts: ["gpu[01:08]"], vars: {user: kimi}}
      all-models: {children: [kimi], hosts: [old]}
    deployments:
      chat: {hosts: [kimi], unit: sglang-kimi.service}

or an Ansible inventory, as far as it says where hosts are (`triage.hosts.inventory.ansible`).
The settings of a host come before those of its groups, a group's before those of the groups around it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from triage.common.commands import command
from triage.common.errors import UsageError

ALL = "all"
MAX_HOSTS = 10_000  # of one range
MAX_NAMES = 500_000  # of hosts in groups, those of their children among them
MAX_NAME = 256  # characters
YAML_ENDINGS = (".yaml", ".yml")
REFUSED = "!"  # prefix of a setting's name: why the setting cannot be used, "" if it can
VAULT = b"$ANSIBLE_VAULT"
# These are joined in this order: on ssh's command line the first value counts.
ARGUMENTS = ("ansible_ssh_args", "ansible_ssh_common_args", "ansible_ssh_extra_args")
NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@:-]*"
SHAPES = {"address": r"[0-9A-Za-z_][0-9A-Za-z:._%-]*|[0-9A-Fa-f:]+", "user": r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*"}
_RANGE = re.compile(r"\[(\d{1,6}|[A-Za-z]):(\d{1,6}|[A-Za-z])(?::(\d{1,4}))?\]")


@dataclass(frozen=True)
class Settings:
    """How to reach a host. "", 0 and None leave a setting to the user's ssh configuration.

    `unit` is the systemd unit of the service.
    """

    address: str = ""
    user: str = ""
    port: int = 0
    identity_file: str = ""
    become: bool | None = None
    unit: str = ""
    ssh_arguments: str = ""


@dataclass(frozen=True)
class Host:
    """A host. `name` is its name in errors, reports and the ssh configuration.

    `unusable` says why it cannot be reached as the inventory requires, "" if it can.
    """

    name: str
    settings: Settings = Settings()
    groups: tuple[str, ...] = ()
    unusable: str = ""


@dataclass(frozen=True)
class HostGroup:
    """A group as it stands in a file: its own hosts, the names of its children, and settings by name.

    The settings in `beside` come from separate files and take precedence over those of any group in the
    inventory.
    """

    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class InventoryService:
    """A deployment: hosts or groups, and the unit that serves on them."""

    hosts: tuple[str, ...]
    unit: str


@dataclass(frozen=True)
class Inventory:
    """Hosts by name, and the names of the hosts of each group, including those of its children."""

    hosts: Mapping[str, Host] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    services: Mapping[str, InventoryService] = field(default_factory=dict)

    def is_several(self, words: str) -> bool:
        """Return whether `words` name a group, a deployment or a list, rather than one host."""
        return len(_parts(words)) > 1 or any(name in self._sets for name in _parts(words))

    def select(self, words: str) -> tuple[Host, ...]:
        """Return the hosts of `GROUP`, `DEPLOYMENT`, `HOST,HOST`, `all` or `gpu[01:12]`, each once, in order.

        Any other name is a host that only the ssh configuration or a resolver knows. Raises UsageError if
        nothing is named.
        """
        found: dict[str, Host] = {}
        for name in _parts(words):
            for host in self._named(name):
                found.setdefault(host.name, host)
        if not found:
            raise UsageError("choosing hosts", repr(words), "this is not a host name", command("hosts list"))
        return tuple(found.values())

    @property
    def _sets(self) -> Mapping[str, object]:
        return {**self.groups, **self.services, **({ALL: ()} if self.hosts else {})}

    def _named(self, name: str) -> Iterator[Host]:
        if name in self.services:
            service = self.services[name]
            for each in service.hosts:
                for host in self._named(each):
                    yield replace(host, settings=replace(host.settings, unit=service.unit))
        elif name == ALL and self.hosts:
            yield from self.hosts.values()
        elif name in self.groups:
            yield from (self.hosts[each] for each in self.groups[name])
        else:
            yield self.hosts.get(name, Host(name))


class Names:
    """Expands the names of one file, all of them together no more than `MAX_NAMES`."""

    def __init__(self) -> None:
        self._left = MAX_NAMES

    def expand(self, name: str) -> Iterator[str]:
        """Expand as the function `expand` does."""
        for each in expand(name):
            self._left -= 1
            if self._left < 0:
                raise ValueError(f"with it the file names more than {MAX_NAMES} hosts")
            yield each


def expand(name: str) -> Iterator[str]:
    """`gpu[01:03]` -> gpu01, gpu02, gpu03; `n[a:c]` and steps (`[0:8:2]`) too. Raises ValueError."""
    if len(name) > MAX_NAME:
        raise ValueError(f"it is longer than {MAX_NAME} characters")
    match = _RANGE.search(name)
    if match is None:
        yield name
        return
    first, last, step = match[1], match[2], int(match[3] or 1)
    if first.isdigit() != last.isdigit() or step == 0:
        raise ValueError(f"{match[0]} is not a range")
    if first.isdigit():
        if first.startswith("0") and len(first) > 1 and len(first) != len(last):
            raise ValueError(f"{match[0]}: both ends need as many digits")
        numbers, width = range(int(first), int(last) + 1, step), len(first) if first.startswith("0") else 0
        each = [f"{number:0{width}}" for number in numbers[: MAX_HOSTS + 1]]
    else:
        each = [chr(number) for number in range(ord(first), ord(last) + 1, step)]
    if not each:
        raise ValueError(f"{match[0]} is empty")
    before, after = name[: match.start()], name[match.end() :]
    whole = (full for value in each for full in expand(f"{before}{value}{after}"))
    found = list(itertools.islice(whole, MAX_HOSTS + 1))
    if len(found) > MAX_HOSTS:
        raise ValueError(f"it is more than {MAX_HOSTS} hosts")
    yield from found


def broken(path: Path, key: str, why: str) -> UsageError:
    return UsageError("reading inventory", str(path), f"{key}: {why}", "fix it, then: triage hosts list")


def _parts(words: str) -> list[str]:
    try:
        return [name for part in words.split(",") for name in expand(part.strip()) if name]
    except ValueError as error:
        raise UsageError("choosing hosts", repr(words), str(error), command("hosts list")) from None
