"""Commands: parse, call, render, exit code."""
