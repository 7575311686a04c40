"""What strings the rooms together: a diagnosis, a capture, a replay, a verification, a bench."""
