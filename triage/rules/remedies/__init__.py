"""What to do about a matched rule, computed for the deployment where it can be."""
