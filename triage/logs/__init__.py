"""Log formats -> records -> faults -> incidents. Knows nothing of hosts."""
