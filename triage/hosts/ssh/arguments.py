"""ssh arguments that an inventory may give, such as `ansible_ssh_common_args` with `-o ProxyJump=bastion`.

Only arguments about how a host is reached are accepted. Anything that runs a program chosen by the inventory
belongs in the user's own ssh configuration.
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
    """Return which of the arguments is not accepted, "" if all are."""
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
