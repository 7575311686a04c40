"""Commands for a person to run on a host, as they are typed here."""

from __future__ import annotations

import shlex

LOCAL = "local"


def there(host: str, command: str = "") -> str:
    """`ssh gpu01 'systemctl status kimi'`; the command alone where the host is this machine.

    `host` is as the user named it: `local`, an ssh alias, `user@host:port` or `ssh://user@host:port`. Without
    a command, the line that leads there.
    """
    if host == LOCAL:
        return command
    where = f"ssh://{host}" if ":" in host and not host.startswith("ssh://") else host
    return shlex.join(("ssh", where, *([command] if command else [])))
