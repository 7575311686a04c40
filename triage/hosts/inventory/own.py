"""Reads hosts.yaml; `triage.hosts.inventory.model` describes the format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from triage.common.yaml_files import load_model
from triage.hosts.inventory.model import HostGroup, InventoryService, Names, broken


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Settings(_Entry):
    address: str = ""
    user: str = ""
    port: int = Field(default=0, ge=1, le=65535)
    identity_file: str = ""
    become: bool | None = None
    unit: str = ""


OrNothing = BeforeValidator(lambda value: {} if value is None else value)  # `gpu01:` with nothing after it


class _Group(_Entry):
    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    vars: _Settings = _Settings()


class _Deployment(_Entry):
    hosts: tuple[str, ...]
    unit: str


class _File(_Entry):
    vars: _Settings = _Settings()
    hosts: dict[str, Annotated[_Settings, OrNothing]] = {}
    groups: dict[str, Annotated[_Group, OrNothing]] = {}
    deployments: dict[str, _Deployment] = {}


def read(
    path: Path,
) -> tuple[dict[str, Mapping[str, Any]], dict[str, HostGroup], dict[str, InventoryService]]:
    """Return hosts with their settings, groups and deployments. Raises UsageError that names the key."""
    file = load_model(path, _File, "inventory")
    all_names = Names()
    hosts: dict[str, Mapping[str, Any]] = {
        name: settings.model_dump(exclude_unset=True)
        for key, settings in file.hosts.items()
        for name in _expanded(path, f"hosts.{key}", (key,), all_names)
    }
    groups = {
        name: HostGroup(
            _expanded(path, f"groups.{name}.hosts", group.hosts, all_names),
            group.children,
            group.vars.model_dump(exclude_unset=True),
        )
        for name, group in file.groups.items()
    }
    if "all" in groups:
        raise broken(path, "groups.all", "every host is in it; settings of every host stand below `vars`")
    groups["all"] = HostGroup(tuple(hosts), tuple(groups), file.vars.model_dump(exclude_unset=True))
    services = {
        name: InventoryService(_expanded(path, f"deployments.{name}.hosts", item.hosts, all_names), item.unit)
        for name, item in file.deployments.items()
    }
    return hosts, groups, services


def _expanded(path: Path, key: str, names: tuple[str, ...], all_names: Names) -> tuple[str, ...]:
    try:
        return tuple(each for name in names for each in all_names.expand(name))
    except ValueError as error:
        raise broken(path, key, str(error)) from None
