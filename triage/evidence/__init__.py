"""Every fact read from a host, asked through a closed catalogue of read-only queries."""
