"""Bytes of a log as lines: loaded, unwrapped, and read where something stands."""
