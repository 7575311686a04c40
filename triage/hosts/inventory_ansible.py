"""Ansible inventories, INI and YAML, as far as they say which hosts there are and how ssh reaches them.

    [kimi]
    gpu[01:08].example.org ansible_user=ops
    old ansible_host=10.0.0.9 ansible_port=2222 ansible_ssh_private_key_file=~/.ssh/old

    [kimi:vars]
    ansible_become=yes

    [models:children]
    kimi

Variables that do not begin with `ansible_` are for playbooks, and are not looked at. One that does, and
is not known here, is refused: to leave it out could mean to reach another machine, or as somebody else.
The format: docs.ansible.com, "How to build your inventory".
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from triage.errors import UsageError
from triage.hosts.inventory import ALL, Group, broken, expand

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 16  # groups in groups; a YAML alias can hold itself
TEXTS = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "identity_file",
    "ansible_private_key_file": "identity_file",
}
PORTS = ("ansible_port", "ansible_ssh_port")
# What says nothing of how to get there, or says what is done anyway.
OF_NO_MATTER = frozenset(
    (
        *("ansible_python_interpreter", "ansible_shell_type", "ansible_remote_tmp", "ansible_facts"),
        *("ansible_ssh_pipelining", "ansible_pipelining", "ansible_become_method", "ansible_become_user"),
    )
)
VALUES_THAT_HOLD = {
    "ansible_connection": ("ssh", "paramiko", "paramiko_ssh", "smart"),
    "ansible_become_method": ("sudo",),
    "ansible_become_user": ("root",),
}
SECRETS = ("pass", "password", "passphrase")
_SECTION = re.compile(r"\[([^\[\]:\s]+)(?::(\w+))?\]\s*(?:[#;].*)?")
_PORT = re.compile(r"([^:]+):(\d{1,5})")


def looks_so(data: Mapping[str, Any]) -> bool:
    """Whether a YAML file's top level holds groups as Ansible has them."""
    keys = {"hosts", "children", "vars"}
    return all(group is None or (isinstance(group, dict) and keys >= set(group)) for group in data.values())


def read_ini(path: Path) -> tuple[dict[str, Mapping[str, Any]], dict[str, Group]]:
    """Hosts with their settings, and groups. Raises UsageError that names the line."""
    made = _Made(path)
    group, kind = "ungrouped", ""
    for number, line in enumerate(_lines(path), 1):
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        where = f"line {number}"
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
            made.settings(group, where, {name.strip(): "".join(_words(path, where, value)[:1])})
        else:
            words = _words(path, where, text)
            pairs = [word.partition("=") for word in words[1:]]
            if bad := [name for name, equals, _ in pairs if not equals]:
                raise broken(path, where, f"{bad[0][:60]} is not NAME=VALUE")
            made.hosts(group, where, words[0], {name: value for name, _, value in pairs})
    return made.result()


def read_yaml(path: Path, data: Mapping[str, Any]) -> tuple[dict[str, Mapping[str, Any]], dict[str, Group]]:
    """The same of the YAML form. Raises UsageError that names the key."""
    made = _Made(path)
    waiting = [(name, str(name), body) for name, body in data.items()]
    while waiting:
        name, where, body = waiting.pop(0)
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
        made.settings(str(name), f"{where}.vars", parts["vars"])
        for host, variables in parts["hosts"].items():
            if not isinstance(variables or {}, dict):
                raise broken(path, f"{where}.hosts.{host}", "it is not a mapping")
            made.hosts(str(name), f"{where}.hosts.{host}", str(host), variables or {})
        for child, inner in parts["children"].items():
            made.child(str(name), str(child))
            waiting.append((child, f"{where}.children.{child}", inner))
    return made.result()


class _Made:
    """What has been read so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hosts: dict[str, dict[str, Any]] = {}
        self._members: dict[str, dict[str, None]] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._settings: dict[str, dict[str, Any]] = {}

    def group(self, name: str) -> None:
        for part in (self._members, self._children):
            part.setdefault(name, {})
        self._settings.setdefault(name, {})

    def child(self, group: str, name: str) -> None:
        self.group(group)
        self._children[group][name] = None

    def settings(self, group: str, where: str, variables: Mapping[str, Any]) -> None:
        self.group(group)
        self._settings[group].update(self._known(where, variables))

    def hosts(self, group: str, where: str, pattern: str, variables: Mapping[str, Any]) -> None:
        self.group(group)
        match = _PORT.fullmatch(pattern)
        settings = {"port": int(match[2])} if match else {}
        settings.update(self._known(where, variables))
        try:
            for name in expand(match[1] if match else pattern):
                self._hosts.setdefault(name, {}).update(settings)
                self._members[group][name] = None
        except ValueError as error:
            raise broken(self._path, where, str(error)) from None

    def result(self) -> tuple[dict[str, Mapping[str, Any]], dict[str, Group]]:
        groups = {
            name: Group(tuple(members), tuple(self._children[name]), self._settings[name])
            for name, members in self._members.items()
        }
        if groups.get("ungrouped") == Group():
            del groups["ungrouped"]
        inside = {child for group in groups.values() for child in group.children}
        top = tuple(name for name in groups if name != ALL and name not in inside)
        given = groups.get(ALL, Group())
        groups[ALL] = Group(given.hosts, tuple(dict.fromkeys((*given.children, *top))), given.settings)
        return dict(self._hosts), groups

    def _known(self, where: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        """The settings among variables. Raises UsageError for those that must not be left out."""
        found: dict[str, Any] = {}
        for name, value in variables.items():
            text = str(value)
            if not str(name).startswith("ansible_"):
                continue
            if "{{" in text:
                raise broken(self._path, where, f"{name} is a template, which is not read here")
            if name in TEXTS:
                found[TEXTS[name]] = text
            elif name in PORTS:
                if not text.isdigit() or not 0 < int(text[:6]) < 65536:
                    raise broken(self._path, where, f"{name}={text[:20]} is not a port")
                found["port"] = int(text)
            elif name == "ansible_become":
                found["become"] = self._truth(where, name, text)
            elif name.endswith(SECRETS):
                raise broken(self._path, where, f"{name}: a password does not stand in a file; leave it out")
            elif text not in VALUES_THAT_HOLD.get(name, (text,) if name in OF_NO_MATTER else ()):
                raise broken(self._path, where, f"{name}={text[:60]} is not known here")
        return found

    def _truth(self, where: str, name: str, text: str) -> bool:
        if text.lower() not in ("yes", "true", "1", "on", "no", "false", "0", "off"):
            raise broken(self._path, where, f"{name}={text[:20]} is neither yes nor no")
        return text.lower() in ("yes", "true", "1", "on")


def _lines(path: Path) -> list[str]:
    doing, next = ("reading inventory", str(path)), f"ls -l {path}"
    try:
        with path.open("rb") as file:
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
