"""Secrets, people and machines, replaced before anything is kept or shown."""
