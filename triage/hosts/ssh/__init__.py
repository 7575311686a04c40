"""Connections over SSH, configured and authenticated as OpenSSH does it."""
