"""Semantic, reversible changes to the source of installed packages."""
