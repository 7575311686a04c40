"""Words in the commands of remedies that stand for something of the deployment: UNIT, GPUS, ..."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from triage.rules.context import Context

_WORDS = re.compile(r"(?<![\w-])(?:UNIT|GPUS|TP|MODEL_PATH|PYTHON|PID|N|M)(?![\w-])")


def placeholders(context: Context) -> Mapping[str, str]:
    """What is known of the run, quoted for a shell."""
    ran, pid = context.ran, context.fault.pid
    gpus = ran.layout.tp * ran.layout.pp
    known = {
        "UNIT": shlex.quote(ran.unit) if ran.unit else "",
        "GPUS": str(gpus) if gpus > 1 else "",
        "TP": str(ran.layout.tp) if gpus > 1 else "",
        "MODEL_PATH": shlex.quote(ran.model) if ran.model else "",
        "PYTHON": shlex.quote(ran.python) if ran.python else "",
        "PID": str(pid) if pid is not None else "",
    }
    return {name: value for name, value in known.items() if value}


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with the placeholders that have a value replaced; the others stay, to be seen."""
    return _WORDS.sub(lambda found: values.get(found[0], found[0]), text)
