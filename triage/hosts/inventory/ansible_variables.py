"""Ansible variables that say how a host is reached, from inventories, group_vars and host_vars.

Variables that do not begin with `ansible_` are for playbooks and are ignored. An `ansible_` variable that is
not known here makes its hosts unusable, because ignoring it could mean another machine or another user.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from triage.common.files import open_plain
from triage.common.yaml import SafeLoader
from triage.hosts.inventory.model import ARGUMENTS, REFUSED, VAULT, broken
from triage.hosts.ssh.arguments import why_not

log = logging.getLogger(__name__)

MAX_FILES = 1000
ENDINGS = ("", ".yaml", ".yml", ".json")
SETTINGS = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "identity_file",
    "ansible_private_key_file": "identity_file",
    "ansible_become": "become",
}
YES, NO = ("yes", "true", "1", "on"), ("no", "false", "0", "off")
# These do not affect how a host is reached, or ask for what is done anyway.
OF_NO_MATTER = frozenset(
    (
        *("ansible_python_interpreter", "ansible_shell_type", "ansible_remote_tmp", "ansible_facts"),
        *("ansible_ssh_pipelining", "ansible_pipelining"),
    )
)
VALUES_THAT_HOLD = {
    "ansible_connection": ("ssh", "paramiko", "paramiko_ssh", "smart"),
    "ansible_become_method": ("sudo",),
    "ansible_become_user": ("root",),
}
SECRETS = ("pass", "password", "passphrase")


class Loader(SafeLoader):  # type: ignore[misc]
    """What is encrypted, or a template, is not read here."""


Loader.add_constructor("!vault", lambda loader, node: "{{ vault }}")
Loader.add_constructor("!unsafe", lambda loader, node: str(node.value))


def known(path: Path, where: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings among variables. Under `REFUSED` and a name stands why there is none.

    Raises UsageError for a password in plain text.
    """
    found: dict[str, Any] = {}
    for name, value in variables.items():
        if not str(name).startswith("ansible_"):
            continue
        key, text = SETTINGS.get(name, name), str(value)
        setting, why = _setting(path, where, str(name), text)
        found[f"{REFUSED}{key}"] = why and f"{path.name}: {where}: {why}"
        if not why and (key != name or name in ARGUMENTS):
            found[key] = setting
    return found


def _setting(path: Path, where: str, name: str, text: str) -> tuple[Any, str]:
    """Return the value of a variable, and what is wrong with it."""
    if name.endswith(SECRETS):
        if "{{" not in text:
            raise broken(path, where, f"{name}: a password does not stand in a file; leave it out")
        return None, ""
    if "{{" in text:
        return None, f"{name} is a template or encrypted, which is not read here"
    key = SETTINGS.get(name)
    if key == "port":
        number = int(text) if text.isdigit() and len(text) < 6 else 0
        return number, "" if 0 < number < 65536 else f"{name}={text[:20]} is not a port"
    if key == "become":
        return (
            text.lower() in YES,
            "" if text.lower() in YES + NO else f"{name}={text[:20]} is neither yes nor no",
        )
    if name in ARGUMENTS:
        why = why_not(text)
        return text, why and f"{name}: {why}"
    if key is None and text not in VALUES_THAT_HOLD.get(name, (text,) if name in OF_NO_MATTER else ()):
        return None, f"{name}={text[:60]} is not known here"
    return text, ""


def beside(directory: Path, kind: str, names: Mapping[str, object]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return what `group_vars` or `host_vars` (`kind`) in a directory define for each name."""
    if not (directory / kind).is_dir():
        return
    for name in names:
        for path in _files(directory / kind, name) if "/" not in name else ():
            yield name, known(path, "its variables", _mapping(path))


def _files(directory: Path, name: str) -> Iterator[Path]:
    for ending in ENDINGS:
        path = directory / f"{name}{ending}"
        if path.is_file():
            yield path
        elif path.is_dir():
            inner = sorted(each for each in path.rglob("*") if each.suffix in ENDINGS and each.is_file())
            if len(inner) > MAX_FILES:
                raise broken(path, "its files", f"they are more than {MAX_FILES}")
            yield from inner


def _mapping(path: Path) -> Mapping[str, Any]:
    from triage.common.yaml_files import MAX_BYTES, load_mapping

    try:
        with open_plain(path) as file:
            data = file.read(MAX_BYTES)
    except OSError:
        data = b""
    if data.startswith(VAULT):
        log.warning(
            "%s is encrypted and not read: what it says of how hosts are reached does not count", path
        )
        return {}
    return load_mapping(path, "inventory", Loader) if data.strip() else {}
