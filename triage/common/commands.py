"""Commands of triage's own that a message names, as their words: options can be added to them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class NextCommand:
    """`triage VERB HOST ARGUMENTS`; as text it is ready to paste.

    A command that names a `host` can be given the options that reach it.
    """

    verb: tuple[str, ...]
    host: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        return ("triage", *self.verb, *filter(None, (self.host,)), *self.arguments)

    def reaching(self, options: Iterable[str]) -> NextCommand:
        """Return the command with a connection's options behind its host, or as it is if it has none."""
        return replace(self, arguments=(*options, *self.arguments)) if self.host else self

    def plus(self, *arguments: str) -> NextCommand:
        return replace(self, arguments=(*self.arguments, *arguments))

    def without(self, argument: str) -> NextCommand:
        return replace(self, arguments=tuple(word for word in self.arguments if word != argument))

    def __str__(self) -> str:
        return shlex.join(self.argv)


Next = str | NextCommand
"""What to do next: prose or the command of another program as text, one of triage's own as its words."""


def command(verb: str, host: str = "", *arguments: str) -> NextCommand:
    """`triage VERB HOST ARGUMENTS`; of more words, as `patch status`, `rules list` or `diagnose HOST`, the
    verb is split at its spaces.
    """
    return NextCommand(tuple(verb.split()), host, arguments)
