"""Requests sent to a service, and the figures made of them."""
