"""Read an inventory, ours or one of Ansible, and give each host the settings of its groups."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from triage.common.errors import UsageError
from triage.common.files import open_plain
from triage.hosts.inventory.model import (
    ALL,
    ARGUMENTS,
    MAX_NAMES,
    NAME,
    REFUSED,
    SHAPES,
    VAULT,
    YAML_ENDINGS,
    Host,
    HostGroup,
    Inventory,
    InventoryService,
    Settings,
    broken,
)


def load_inventory(path: Path) -> Inventory:
    """An inventory from a file. Raises UsageError that names the file and the line or key."""
    from triage.hosts.inventory import ansible, own

    if _is_encrypted(path):
        next = f"ansible-inventory -i {path} --list --yaml > hosts.yml"
        raise UsageError("reading inventory", str(path), "it is encrypted, which is not read here", next)
    if path.suffix in YAML_ENDINGS and not path.is_dir() and not ansible.is_one(path):
        return build(path, *own.read(path))
    return build(path, *ansible.read(path))


def _is_encrypted(path: Path) -> bool:
    with contextlib.suppress(OSError), open_plain(path) as file:
        return file.read(len(VAULT)) == VAULT
    return False


def build(
    path: Path,
    hosts: Mapping[str, Mapping[str, Any]],
    groups: Mapping[str, HostGroup],
    services: Mapping[str, InventoryService] = MappingProxyType({}),
) -> Inventory:
    """What a file says, put together: each host with the settings of its groups. Raises UsageError."""
    for name in [name for name in groups if name in hosts]:
        raise broken(path, name, "it is the name of a host and of a group")
    for name in [name for name in services if name in hosts or name in groups or name == ALL]:
        raise broken(path, f"deployments.{name}", "a host or a group has this name already")
    for name, group in groups.items():
        for child in group.children:
            if child not in groups:
                raise broken(
                    path, f"{name}.children", f"there is no group {child[:80]}{_near(child, groups)}"
                )
        for host in group.hosts:
            if host not in hosts:
                raise broken(path, f"{name}.hosts", f"there is no host {_near(host, hosts)}")
    for name, service in services.items():
        for each in service.hosts:
            if each not in hosts and each not in groups and each != ALL:
                raise broken(path, f"deployments.{name}.hosts", f"there is no host or group {each}")
    for name in hosts:
        if not re.fullmatch(NAME, name):
            raise broken(path, name[:60], "this is not a host name")
    depth = _depths(path, groups)
    members = _members(path, groups)
    memberships: dict[str, list[str]] = {}
    for group_name, inside in members.items():
        for name in inside:
            memberships.setdefault(name, []).append(group_name)
    of_all = groups.get(ALL, HostGroup())
    found = {}
    for name, own in hosts.items():
        around = sorted(memberships.get(name, ()), key=lambda n: (depth[n], n))
        merged = dict(of_all.settings)
        for each in around:
            merged.update(groups[each].settings)
        merged.update(of_all.beside)
        for each in around:
            merged.update(groups[each].beside)
        merged.update(own)
        if arguments := " ".join(filter(None, (merged.pop(key, "") for key in ARGUMENTS))):
            merged["ssh_arguments"] = arguments
        refused = [merged.pop(key) for key in list(merged) if key.startswith(REFUSED)]
        for key, shape in SHAPES.items():
            if merged.get(key) and not re.fullmatch(shape, merged[key]):
                raise broken(path, name, f"{merged[key][:60]!r} is no {key}")
        names = tuple(each for each in around if each != ALL)
        found[name] = Host(name, Settings(**merged), names, "; ".join(why for why in refused if why))
    return Inventory(found, {name: tuple(each) for name, each in members.items() if name != ALL}, services)


def _members(path: Path, groups: Mapping[str, HostGroup]) -> dict[str, dict[str, None]]:
    """The hosts of each group and of all its children, in order; a dict as an ordered set."""
    found: dict[str, dict[str, None]] = {}
    count = 0
    for name in reversed(_from_outside(groups)):
        inside = dict.fromkeys(groups[name].hosts)
        for child in groups[name].children:
            inside.update(found[child])
            count += len(found[child])
        found[name] = inside
        count += len(inside)
        if count > 4 * MAX_NAMES:
            raise broken(path, name[:60], "with it the groups hold too many hosts")
    return {name: found[name] for name in groups}


def _depths(path: Path, groups: Mapping[str, HostGroup]) -> Mapping[str, int]:
    """How many groups each lies in at most. Raises UsageError where one lies in itself."""
    depth = dict.fromkeys(groups, 0)
    order = _from_outside(groups)
    for name in order:
        for child in groups[name].children:
            depth[child] = max(depth[child], depth[name] + 1)
    if len(order) < len(groups):
        known = set(order)
        within = next(name for name in groups if name not in known)
        raise broken(path, within[:60], "it is, through its children, a child of itself")
    return depth


def _from_outside(groups: Mapping[str, HostGroup]) -> list[str]:
    """Each group before its children; those that lie in themselves, and what lies in them, are left out."""
    around = Counter(child for group in groups.values() for child in group.children)
    found = [name for name in groups if not around[name]]
    for name in found:
        for child in groups[name].children:
            around[child] -= 1
            if not around[child]:
                found.append(child)
    return found


def _near(name: str, known: Iterable[str]) -> str:
    """The name, and one like it that there is."""
    few = itertools.islice((each for each in known if len(each) <= 80), 2000)
    near = difflib.get_close_matches(name, few, 1) if len(name) <= 80 else ()
    return f"{name[:80]}; is it {near[0]}?" if near else name[:80]
