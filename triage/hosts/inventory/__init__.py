"""Which hosts there are, and how each is reached."""
