"""What failed: tracebacks, native deaths and errors of one line, and how much each can explain."""
