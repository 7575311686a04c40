"""How to reach a host: what the command line says, beside the user's ssh configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

Ask = Callable[[str], "str | None"]  # from a prompt to what a person typed
HostKeyPolicy = Literal["strict", "accept-new"]


@dataclass(frozen=True)
class ConnectionOptions:
    """Options of one connection.

    `ssh_config` replaces `~/.ssh/config`. `host_key` says what happens to a host whose key is not
    known: refused, or added to known_hosts; a changed key is always refused, whatever the
    configuration says. `connect_timeout` (seconds) bounds each of connecting, the key exchange and
    the authentication; ConnectTimeout of the configuration comes first. `become` runs commands as
    root through sudo. `address`, `user`, `port` and `identity_file` come before the ssh configuration;
    they are of the host itself, not of its jumps, and so are `ssh_arguments`, what else ssh is told. Once
    `stop` is set, whatever runs is ended, on the host too, and raises KeyboardInterrupt. `ask` gets a
    password or passphrase from a person; without it, or with None from it, there is none. `sudo_of` says
    whose password sudo wants, where it is that of several hosts.
    """

    ssh_config: Path | None = None
    host_key: HostKeyPolicy = "strict"
    connect_timeout: float = 15.0
    become: bool = False
    address: str = ""
    user: str = ""
    port: int = 0
    identity_file: Path | None = None
    ssh_arguments: tuple[str, ...] = ()
    stop: Event | None = None
    ask: Ask | None = None
    sudo_of: str = ""


def check(stop: Event | None) -> None:
    """Raises KeyboardInterrupt once `stop` is set: to whatever runs in a thread, Ctrl-C comes this way."""
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt
