"""What stands for something else in an ssh configuration: `%h`, `${HOME}`, `~` (ssh_config(5), TOKENS)."""

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
    """Of a host that was asked for by that name, and is known by `key_name`."""
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
    """Raises ValueError for a token that is not known."""

    def token(match: re.Match[str]) -> str:
        if match[1] not in tokens:
            raise ValueError(f"{text}: {match[0]} is not known here")
        return tokens[match[1]]

    return _TOKEN.sub(token, text)


def path_of(text: str, tokens: Tokens) -> Path:
    """A file's name, in which variables count as well. Raises ValueError for what is not known."""

    def variable(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise ValueError(f"{text}: the environment has no {match[1]}")
        return os.environ[match[1]]

    return Path(_VARIABLE.sub(variable, expanded(text, tokens))).expanduser()
