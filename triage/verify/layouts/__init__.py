"""Parallel layouts: the commands that ask for them, and what their links cost."""
