"""Restart, readiness, exercise, measurement, and a verdict."""
