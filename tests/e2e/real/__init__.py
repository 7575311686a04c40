"""Real servers on a CPU, end to end: `make e2e-real`. Opt-in: some gigabytes of packages, and minutes."""
