"""Cases: recorded evidence, that is, what was asked of a host and what it answered."""
