"""Signatures that propose a hypothesis, probes that confirm it, remedies."""
