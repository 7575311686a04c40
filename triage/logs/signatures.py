"""Whether the lines of a source are signed: by journald, syslog or a container runtime, or by nobody.

In a journal the kernel and the service manager have names of their own. In a console's log they have none,
and a user who sends `May 12 14:03:59 gpu01 kernel: ..` to a service that logs it writes just such a line.
"""

from __future__ import annotations

import re

from triage.logs.reading.line import Line

ENGINES = 2
FEW = 3
"""Lines of an engine, and any lines, that nobody signed, and that a signed log may have: torn, or wrapped."""

_NO_LOG = re.compile(r"\s|-- |[\u2500-\u25ff\u00d7*]+ |[A-Z]\w{1,60}=|$")
"""What `systemctl status` and `show` print, and journalctl's own remarks."""


class Signatures:
    """Takes the lines of a source, and tells whether its engine's lines are among the unsigned ones."""

    def __init__(self) -> None:
        self._signed = self._unsigned = self._engines = 0

    def saw(self, line: Line) -> None:
        if line.author:
            self._signed += 1
        elif line.head or line.repeating:
            self._engines += 1
        elif not _NO_LOG.match(line.text):
            self._unsigned += 1

    @property
    def mixed(self) -> bool:
        """Whether a line that looks like the kernel's can be the service's."""
        return self._engines >= ENGINES or self._unsigned >= max(FEW, self._signed)
