"""The story's defect in a small stand-in, on real systems of other Debian suites: `make e2e-systemd`."""
