"""Connections to hosts. This is the only package that talks to a machine."""

from triage.hosts.connection import Connection, Output
from triage.hosts.opening import open_connection
from triage.hosts.options import ConnectionOptions

__all__ = ["Connection", "ConnectionOptions", "Output", "open_connection"]
