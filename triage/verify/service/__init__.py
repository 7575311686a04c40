"""The service under test: its state, its restart, and how it becomes ready."""
