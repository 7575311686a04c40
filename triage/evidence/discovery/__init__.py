"""Which inference services a host has, and which source tree each of them runs."""
