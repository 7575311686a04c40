"""Inventories: which hosts there are, and how each is reached."""
