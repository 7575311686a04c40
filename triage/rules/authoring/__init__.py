"""The tools of those who write rules: check, draft, lint, and the pages made of rules."""
