"""Opens a connection to a host by its name."""

from __future__ import annotations

from triage.hosts.connection import Connection
from triage.hosts.options import ConnectionOptions

LOCAL = "local"


def open_connection(name: str, options: ConnectionOptions | None = None) -> Connection:
    """Connect to `local`, an ssh alias, `host`, `user@host:port` or `ssh://user@host:port`.

    Raises UsageError for a name that is not valid, UnreachableError if the host cannot be reached or refuses
    the log-in, and RefusedError for an unknown or changed host key.
    """
    options = options or ConnectionOptions()
    connection: Connection
    if name == LOCAL:
        from triage.hosts.local import LocalConnection

        connection = LocalConnection(options.stop)
    else:
        from triage.hosts.ssh.connection import SshConnection

        connection = SshConnection.open(name, options)
    if options.become:
        from triage.hosts.become import become_root

        return become_root(connection, options.ask, options.sudo_of)
    return connection
