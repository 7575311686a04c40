"""YAML from outside: what people write, and what an engine on a host is given."""

from __future__ import annotations

from typing import Any

import yaml

DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What PyYAML's constructors raise beside its own errors: of `!!bool maybe`, `!!int ""`, `2026-13-40`."""
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# Of one text, with every alias counted as often as it stands for something.
MAX_NODES = 300_000
MAX_CHARACTERS = 16 << 20
MAX_DEPTH = 64
MAX_KEY = 256  # characters; errors repeat the keys above them
MAX_NUMBER = 400  # digits; `1:1:1:...` is a number to the base of 60
MAX_NUMBER_AS_KEY = 18  # longer ones can all have one hash
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def parse_yaml(text: str, loader: Any = SafeLoader) -> Any:
    """The value that `text` spells. Raises ValueError, with the reason, for what is not YAML.

    So it does for what would be more than a file holds: by aliases of aliases, or in depth.
    """
    try:
        reading = loader(text)
        try:
            node = reading.get_single_node()
            if node is None:
                return None
            _check(node)
            return reading.construct_document(node)
        finally:
            reading.dispose()
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except DAMAGE as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


def compose_yaml(text: str) -> Any:
    """The nodes of a text, None where it is empty. Raises as `parse_yaml`."""
    try:
        node = yaml.compose(text, Loader=SafeLoader)
        if node is not None:
            _check(node)
        return node
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except DAMAGE as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None


class _TooMuch(yaml.YAMLError):
    pass


def _check(top: yaml.Node) -> None:
    """Raises YAMLError where a node, its aliases followed, is too much. Each is looked at once."""
    measured: dict[int, tuple[int, int, int]] = {}  # nodes, characters, depth
    inside: set[int] = set()
    pending = [top]
    while pending:
        node = pending[-1]
        mark = id(node)
        if mark in measured:
            pending.pop()
            continue
        children = _children(node)
        if mark not in inside and children:
            inside.add(mark)
            for child in children:
                if id(child) in inside and id(child) not in measured:
                    raise _TooMuch(f"an alias holds itself{_where(child)}")
                if id(child) not in measured:
                    pending.append(child)
            continue
        pending.pop()
        nodes, characters, depth = 1, 0, 0
        if isinstance(node, yaml.ScalarNode):
            characters = len(node.value)
            if characters > MAX_NUMBER and node.tag in _NUMBERS:
                raise _TooMuch(f"a number of more than {MAX_NUMBER} digits{_where(node)}")
        for child in children:
            more = measured[id(child)]
            nodes, characters, depth = nodes + more[0], characters + more[1], max(depth, more[2])
        if nodes > MAX_NODES or characters > MAX_CHARACTERS:
            raise _TooMuch(f"with its aliases it holds too much{_where(node)}")
        if depth >= MAX_DEPTH:
            raise _TooMuch(f"it is nested more than {MAX_DEPTH} deep{_where(node)}")
        measured[mark] = nodes, characters, depth + 1


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                longest = MAX_NUMBER_AS_KEY if key.tag in _NUMBERS else MAX_KEY
                if len(key.value) > longest:
                    raise _TooMuch(f"a key of more than {longest} characters{_where(key)}")
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _where(node: yaml.Node) -> str:
    mark = node.start_mark
    return f", line {mark.line + 1}" if mark else ""
