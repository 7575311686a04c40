"""Expands tokens and variables of an ssh configuration: `%h`, `${HOME}`, `~` (ssh_config(5), TOKENS)."""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path

Tokens = Mapping[str, str]

_TOKEN = re.compile(r"%(.?)")
_VARIABLE = re.compile(r"\$\{([^}]*)\}")


def tokens_of(asked: str, user: str, hostname: str, port: int, key_name: str) -> Tokens:
    """Return the token values for a host that the user called by that name and that is known by
    `key_name`.
    """
    here = socket.gethostname()
    return {
        "%": "%",
        "d": str(Path.home()),
        "h": hostname,
        "i": str(os.getuid()),
        "k": key_name,
        "L": here.partition(".")[0],
        "l": here,
        "n": asked,
        "p": str(port),
        "r": user,
        "u": getpass.getuser(),
    }


def expanded(text: str, tokens: Tokens) -> str:
    """Expand the tokens. Raises ValueError for an unknown one."""

    def token(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise ValueError(f"{text}: {match[0]} is not known here")
        return tokens[match[1]]

    return _TOKEN.sub(token, text)


def path_of(text: str, tokens: Tokens) -> Path:
    """Expand a file name, in which variables count as well. Raises ValueError for an unknown token or
    variable.
    """

    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{text}: the environment has no {match[1]}")
        return os.environ[match[1]]

    return Path(_VARIABLE.sub(variable, expanded(text, tokens))).expanduser()
