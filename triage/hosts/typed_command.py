"""Commands for a person to run on a host, as one types them on this machine."""

from __future__ import annotations

import shlex

LOCAL = "local"


def there(host: str, command: str = "") -> str:
    """Return the line to type, such as `ssh gpu01 'systemctl status kimi'`; for this machine, the command
    alone.

    `host` is the name that the user gave: `local`, an ssh alias, `user@host:port` or `ssh://user@host:port`.
    Without a command, the line opens a shell there.
    """
    if host == LOCAL:
        return command
    where = f"ssh://{host}" if ":" in host and not host.startswith("ssh://") else host
    return shlex.join(("ssh", where, *([command] if command else [])))
