"""Why systemd skipped a unit that it was to start, which does not make it a failed one.

    $ systemctl status --no-pager --full --lines=0 -- kimi.service
    * kimi.service
         Loaded: loaded (/etc/systemd/system/kimi.service; enabled; preset: enabled)
         Active: inactive (dead)
      Condition: start condition failed at Mon 2026-11-30 06:23:13 UTC; 230ms ago
                 |- ConditionPathExists=!/etc/hostname was not met
                 `- ConditionFileNotEmpty=|/srv/models was not met

`show` does not print conditions. Seen with systemd 247 to 262.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from triage.evidence.catalogue.userunits import to_own_manager
from triage.evidence.model import Query, Unanswered, failure_of
from triage.hosts.connection import Output

_UNMET = re.compile(r"\W{0,40}((?:Condition|Assert)[A-Z]\w{1,40}=.{1,1000}) was not met")
_ANSWERS = (0, 3)  # 3: it does not run


@dataclass(frozen=True)
class UnmetConditions(Query[tuple[str, ...]]):
    """Those that were not met when the unit was to be started last, as its file spells them."""

    name: ClassVar[str] = "unmet-conditions"
    purpose: ClassVar[str] = "see which condition kept systemd from starting a service"
    absence: ClassVar[str] = "the condition is not named"

    unit: str

    def argv(self) -> tuple[str, ...]:
        return ("systemctl", "status", "--no-pager", "--full", "--lines=0", "--", self.unit)

    def decode(self, output: Output) -> str:
        if output.code not in _ANSWERS and not output.cut:
            raise Unanswered(failure_of(output))
        lines = output.stdout.decode("utf-8", "backslashreplace").splitlines()
        return "\n".join(found[1] for line in lines if (found := _UNMET.fullmatch(line.strip())))

    def parse(self, text: str) -> tuple[str, ...]:
        return tuple(text.splitlines())


@dataclass(frozen=True)
class UserUnmetConditions(UnmetConditions):
    name: ClassVar[str] = "user-unmet-conditions"
    purpose: ClassVar[str] = "see which condition kept the user's systemd from starting a service"

    def argv(self) -> tuple[str, ...]:
        return to_own_manager(super().argv())
