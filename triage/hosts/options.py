"""Options of a connection: what the command line adds to the user's ssh configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Literal

Ask = Callable[[str], "str | None"]  # takes a prompt and returns what a person typed
HostKeyPolicy = Literal["strict", "accept-new"]


@dataclass(frozen=True)
class ConnectionOptions:
    """Options of one connection.

    - `ssh_config` replaces `~/.ssh/config`.
    - `host_key` says what happens to an unknown host key: it is refused, or added to known_hosts. A changed
      key is always refused, whatever the configuration says.
    - `connect_timeout` (seconds) limits connecting, key exchange and authentication, each on its own.
      ConnectTimeout of the configuration takes precedence.
    - `become` runs commands as root through sudo.
    - `address`, `user`, `port`, `identity_file` and `ssh_arguments` (further arguments of ssh) take
      precedence over the ssh configuration. They apply to the host itself, not to its jump hosts.
    - `stop`, once set, ends whatever runs, on the host too, and raises KeyboardInterrupt.
    - `ask` gets a password or passphrase from a person. Without it, or if it returns None, there is none.
    - `sudo_of` names whose password sudo wants, if it is that of several hosts.
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
    """Raise KeyboardInterrupt once `stop` is set. This is how Ctrl-C reaches what runs in a thread."""
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt
