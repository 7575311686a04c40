"""Evidence that was kept: what was asked of a host and what it answered."""
