"""A machine over SSH, configured and let in as OpenSSH would be."""
