"""Redaction: secrets, people and machines are replaced before anything is stored or shown."""
