"""Find the first fault of a crashed inference service, confirm its cause, mend it, prove it."""

__version__ = "0.1.0"
