"""Renderings of a result: one module a format. Decides nothing."""
