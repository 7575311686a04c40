"""Reads Ansible inventories (INI and YAML) for the hosts in them and how ssh reaches these.

    [kimi]
    gpu[01:08].example.org ansible_user=ops
    old ansible_host=10.0.0.9 ansible_port=2222 ansible_ssh_private_key_file=~/.ssh/old

    [kimi:vars]
    ansible_become=yes

    [models:children]
    kimi

A directory is all its files together. Variables: `triage.hosts.inventory.ansible_variables`, those of
`group_vars` and `host_vars` beside the inventory among them. The format: docs.ansible.com, "How to build
your inventory".
"""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.common.errors import UsageError
from triage.common.files import open_plain
from triage.hosts.inventory.ansible_variables import Loader, beside, known
from triage.hosts.inventory.model import ALL, MAX_NAME, YAML_ENDINGS, HostGroup, Names, broken

MAX_BYTES = 4 * 1024 * 1024
MAX_LINE = 16 * 1024
MAX_DEPTH = 16  # groups in groups; a YAML alias can hold itself
MAX_FILES = 1000
IGNORED = (".orig", ".cfg", ".retry", ".bak", ".pyc", ".pyo", ".rst", ".md", ".txt", ".swp")  # in a directory
VARIABLES = ("group_vars", "host_vars")
OWN_KEYS = frozenset(("vars", "hosts", "groups", "deployments"))
_SECTION = re.compile(r"\[([^\[\]:\s]+)(?::(\w+))?\]\s*(?:[#;].*)?")
_PORT = re.compile(r"([^:]+):(\d{1,5})")


def is_one(path: Path) -> bool:
    """Return whether a YAML file is an Ansible inventory and not one of ours."""
    from triage.common.yaml_files import load_mapping

    data = load_mapping(path, "inventory", Loader)
    return not OWN_KEYS.intersection(data) and _looks_so(data)


def _looks_so(data: Mapping[str, Any]) -> bool:
    """Return whether the top level of a YAML file holds groups as Ansible writes them."""
    keys = {"hosts", "children", "vars"}
    return all(group is None or (isinstance(group, dict) and keys >= set(group)) for group in data.values())


def read(path: Path) -> tuple[dict[str, Mapping[str, Any]], dict[str, HostGroup]]:
    """Return hosts with their settings, and groups. Raises UsageError that names the file and the line or
    key.
    """
    made = _Made()
    for file in _files(path):
        if file.suffix in YAML_ENDINGS:
            _read_yaml(file, made)
        else:
            _read_ini(file, made)
    made.beside(path if path.is_dir() else path.parent)
    return made.result()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(
        each
        for each in path.rglob("*")
        if each.is_file()
        and each.suffix not in IGNORED
        and not each.name.endswith("~")
        and not any(part.startswith(".") or part in VARIABLES for part in each.relative_to(path).parts)
    )
    if not 0 < len(found) <= MAX_FILES:
        raise broken(
            path, "the directory", "it holds no inventory" if not found else "it holds too many files"
        )
    return found


def _read_ini(path: Path, made: _Made) -> None:
    group, kind = "ungrouped", ""
    for number, line in enumerate(_lines(path), 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        where = f"line {number}"
        if len(text) > MAX_LINE:
            raise broken(path, where, f"it is longer than {MAX_LINE} characters")
        if text.startswith("["):
            match = _SECTION.fullmatch(text)
            if match is None or match[2] not in (None, "vars", "children"):
                raise broken(path, where, f"{text[:60]} is not a section; it is [GROUP], [GROUP:vars] or ...")
            group, kind = match[1], match[2] or ""
            made.group(group)
        elif kind == "children":
            made.child(group, _words(path, where, text)[0])
        elif kind == "vars":
            name, equals, value = text.partition("=")
            if not equals:
                raise broken(path, where, f"{text[:60]} is not NAME=VALUE")
            made.settings(path, group, where, {name.strip(): "".join(_words(path, where, value)[:1])})
        else:
            words = _words(path, where, text)
            pairs = [word.partition("=") for word in words[1:]]
            if bad := [name for name, equals, _ in pairs if not equals]:
                raise broken(path, where, f"{bad[0][:60]} is not NAME=VALUE")
            made.hosts(path, group, where, words[0], {name: value for name, _, value in pairs})


def _read_yaml(path: Path, made: _Made) -> None:
    from triage.common.yaml_files import load_mapping

    data = load_mapping(path, "inventory", Loader)
    if not _looks_so(data):
        raise broken(path, "top level", "these are not groups as Ansible has them")
    waiting = deque((name, str(name), body) for name, body in data.items())
    while waiting:
        name, where, body = waiting.popleft()
        if len(str(name)) > MAX_NAME:
            raise broken(path, where[:60], f"a name of more than {MAX_NAME} characters")
        if where.count(".children.") > MAX_DEPTH:
            raise broken(path, where[:60], f"groups in groups, more than {MAX_DEPTH} deep")
        if not isinstance(body or {}, dict) or not {"hosts", "children", "vars"} >= set(body or {}):
            raise broken(path, where, "a group has `hosts`, `children` and `vars`, and nothing else")
        made.group(str(name))
        parts = {}
        for part in ("hosts", "children", "vars"):
            parts[part] = (body or {}).get(part) or {}
            if not isinstance(parts[part], dict):
                raise broken(path, f"{where}.{part}", "it is not a mapping")
        made.settings(path, str(name), f"{where}.vars", parts["vars"])
        for host, variables in parts["hosts"].items():
            if not isinstance(variables or {}, dict):
                raise broken(path, f"{where}.hosts.{host}", "it is not a mapping")
            made.hosts(path, str(name), f"{where}.hosts.{host}", str(host), variables or {})
        for child, inner in parts["children"].items():
            made.child(str(name), str(child))
            waiting.append((child, f"{where}.children.{child}", inner))


class _Made:
    """The hosts and groups that were read so far."""

    def __init__(self) -> None:
        self._names = Names()
        self._hosts: dict[str, dict[str, Any]] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._settings: dict[str, dict[str, Any]] = {}
        self._beside: dict[str, dict[str, Any]] = {}

    def group(self, name: str) -> None:
        for part in (self._members, self._children):
            part.setdefault(name, {})
        self._settings.setdefault(name, {})

    def child(self, group: str, name: str) -> None:
        self.group(group)
        self._children[group][name] = None

    def settings(self, path: Path, group: str, where: str, variables: Mapping[str, Any]) -> None:
        self.group(group)
        self._settings[group].update(known(path, where, variables))

    def hosts(self, path: Path, group: str, where: str, pattern: str, variables: Mapping[str, Any]) -> None:
        self.group(group)
        match = _PORT.fullmatch(pattern)
        settings = {"port": int(match[2])} if match else {}
        settings.update(known(path, where, variables))
        try:
            for name in self._names.expand(match[1] if match else pattern):
                self._hosts.setdefault(name, {}).update(settings)
                self._members[group][name] = None
        except ValueError as error:
            raise broken(path, where, str(error)) from None

    def beside(self, directory: Path) -> None:
        """Add the variables in separate files, which take precedence over those in the inventory."""
        for name, settings in beside(directory, "group_vars", {ALL: None, **self._members}):
            self._beside.setdefault(name, {}).update(settings)
        for name, settings in beside(directory, "host_vars", self._hosts):
            self._hosts[name].update(settings)

    def result(self) -> tuple[dict[str, Mapping[str, Any]], dict[str, HostGroup]]:
        groups = {
            name: HostGroup(
                tuple(members), tuple(self._children[name]), self._settings[name], self._beside.get(name, {})
            )
            for name, members in self._members.items()
        }
        if groups.get("ungrouped") == HostGroup():
            del groups["ungrouped"]
        inside = {child for group in groups.values() for child in group.children}
        top = tuple(name for name in groups if name != ALL and name not in inside)
        given = groups.get(ALL, HostGroup())
        children = tuple(dict.fromkeys((*given.children, *top)))
        groups[ALL] = HostGroup(given.hosts, children, given.settings, self._beside.get(ALL, {}))
        return dict(self._hosts), groups


def _lines(path: Path) -> list[str]:
    doing, next = ("reading inventory", str(path)), f"ls -l {path}"
    try:
        with open_plain(path) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(*doing, error.strerror or str(error), next) from None
    if len(data) > MAX_BYTES:
        raise UsageError(*doing, f"it is larger than {MAX_BYTES} bytes", next)
    if data.startswith(b"#!"):
        raise UsageError(
            *doing,
            "it is a program; only files are read",
            f"ansible-inventory -i {path} --list --yaml > hosts.yaml",
        )
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise UsageError(*doing, f"it is not UTF-8 text: {error.reason}", next) from None


def _words(path: Path, where: str, text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True) or [""]
    except ValueError as error:
        raise broken(path, where, str(error)) from None
