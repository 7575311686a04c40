"""Find the root cause of a crashed inference service, fix it reversibly, and verify the fix."""

__version__ = "0.1.0"
