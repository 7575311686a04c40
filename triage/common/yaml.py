"""YAML from outside: what people write, and what an engine on a host is given."""

from __future__ import annotations

from typing import Any

import yaml

DAMAGE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What PyYAML's constructors raise beside its own errors: of `!!bool maybe`, `!!int ""`, `2026-13-40`."""
SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse_yaml(text: str, loader: Any = SafeLoader) -> Any:
    """The value that `text` spells. Raises ValueError, with the reason, for what is not YAML."""
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    except DAMAGE as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
