"""The file that an engine is told to take arguments from: `--config FILE` of SGLang and vLLM.

YAML, a mapping of flags without dashes. What the command line says itself comes first; of vLLM also the model
that stands there without a flag.
"""

from __future__ import annotations

from collections.abc import Mapping

from triage.evidence.discovery.command_line import parse_arguments

MAX_CHARACTERS = 256 * 1024
MAX_ITEMS = 256  # of a list
_SCALARS = (str, int, float)


def arguments_in(engine: str, text: str) -> dict[str, str]:
    """The flags that a file sets, named as `parse_arguments` does. Raises ValueError for another file."""
    from triage.common.yaml import parse_yaml

    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"it has more than {MAX_CHARACTERS} characters")
    try:
        found = parse_yaml(text)
    except ValueError:
        raise ValueError("it is not YAML") from None
    if not isinstance(found, Mapping):
        raise ValueError("its top level is not a mapping")
    words = [word for key, value in found.items() if isinstance(key, str) for word in _words(key, value)]
    return parse_arguments(engine, words)[0]


def _words(key: str, value: object) -> list[str]:
    """A flag and its value; a switch that is off has none, and nested values are not shown."""
    if value is None or value is False:
        return []
    if isinstance(value, list):
        items = [str(item) for item in value[:MAX_ITEMS] if isinstance(item, _SCALARS)]
        return [f"--{key}={' '.join(items)}"]
    return [f"--{key}={value}" if isinstance(value, _SCALARS) and value is not True else f"--{key}"]
