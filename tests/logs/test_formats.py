"""Every family of prefixes is in the one list of formats, and has what a family needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

import pytest

from triage.logs import formats
from triage.logs.formats import DOUBTFUL, ERRORS, FAMILIES, FORMATS, NAMES


def families() -> list[Any]:
    """The modules of the package that peel a prefix, and the classes in them that do."""
    found: list[Any] = []
    for each in pkgutil.iter_modules(formats.__path__):
        module = importlib.import_module(f"triage.logs.formats.{each.name}")
        inside = [value for _, value in inspect.getmembers(module, inspect.isclass)]
        own = [value for value in inside if value.__module__ == module.__name__]
        found += [value for value in (module, *own) if hasattr(value, "peel") and hasattr(value, "STARTS")]
    return found


def test_the_list_has_every_family_once() -> None:
    listed = [each.family for each in FORMATS]
    assert len(listed) == len(set(map(id, listed))) == len(families())
    assert all(any(family is each for each in listed) for family in families())
    assert len(NAMES) == sum(len(each.names) for each in FORMATS)
    assert {*map(id, FAMILIES), *map(id, DOUBTFUL)} == set(map(id, listed))


@pytest.mark.parametrize("family", families(), ids=str)
def test_what_a_family_calls_an_error_is_looked_for(family: Any) -> None:
    assert set(getattr(family, "ERRORS", ())) <= set(ERRORS)
    assert isinstance(family.STARTS, str)
