"""The one error of a box."""

from __future__ import annotations


class BoxError(Exception):
    """A box could not be built, started or found; the message says which and what it printed last."""
