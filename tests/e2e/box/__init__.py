"""Real Debian systems to test against: systemd as pid 1, journald, sshd; several at once, seconds each.

    with Box("gpu01", binds=interpreter()) as box:
        box.run(["systemctl", "is-system-running"])

From the shell: `python -m tests.e2e.box --help`.
"""

from __future__ import annotations

from .box import Bind, Box, Content, Overlay, interpreter
from .errors import BoxError
from .host import why_not
from .rootfs import rootfs

__all__ = ["Bind", "Box", "BoxError", "Content", "Overlay", "interpreter", "rootfs", "why_not"]
