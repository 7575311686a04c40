"""Arguments of ssh that an inventory may give, as `ansible_ssh_common_args` does: `-o ProxyJump=bastion`.

They say how a host is reached. What would run a program of the inventory's choice is not followed: that
belongs into the user's own ssh configuration.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

_SWITCHES = frozenset(("-4", "-6", "-A", "-a", "-C", "-k", "-q", "-T", "-v", "-vv", "-vvv", "-x"))
_WITH_VALUE = frozenset(("-o", "-J", "-i", "-l", "-p", "-b"))
_OPTIONS = frozenset(
    (
        *(
            "proxyjump",
            "user",
            "port",
            "bindaddress",
            "addressfamily",
            "hostkeyalias",
            "compression",
            "batchmode",
        ),
        *("identityfile", "identitiesonly", "identityagent", "certificatefile", "revokedhostkeys"),
        *("userknownhostsfile", "globalknownhostsfile", "hashknownhosts", "stricthostkeychecking"),
        *(
            "connecttimeout",
            "connectionattempts",
            "serveraliveinterval",
            "serveralivecountmax",
            "tcpkeepalive",
        ),
        *("controlmaster", "controlpath", "controlpersist", "forwardagent", "loglevel", "checkhostip"),
        *(
            "preferredauthentications",
            "pubkeyauthentication",
            "passwordauthentication",
            "gssapiauthentication",
        ),
        *(
            "kbdinteractiveauthentication",
            "challengeresponseauthentication",
            "updatehostkeys",
            "visualhostkey",
        ),
        *("kexalgorithms", "ciphers", "macs", "hostkeyalgorithms", "pubkeyacceptedalgorithms"),
    )
)


def why_not(text: str) -> str:
    """What of such arguments is not followed; "" where all is."""
    try:
        words = iter(shlex.split(text))
        return next(_strange(words), "")
    except ValueError as error:
        return str(error)


def _strange(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        if word in _SWITCHES:
            continue
        option, value = word[:2], word[2:] or next(words, "")
        if option not in _WITH_VALUE or not value:
            yield f"{word[:60]} is not known here"
        key = re.split(r"[\s=]", value.strip(), maxsplit=1)[0]
        if option == "-o" and key.lower() not in _OPTIONS:
            yield f"{key[:60]} is not followed from an inventory"
